/// The Redis version that this server implements. Clients enable features by it.
pub const REDIS_VERSION: &str = "7.2.4";
