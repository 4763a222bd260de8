//! redis-cli --cluster.
