/// The Redis version whose behaviour this server has. Clients switch features on by it.
pub const REDIS_VERSION: &str = "7.2.4";
