// Tests of punctualtest with go-redis. They are a module of their own, so that punctualtest has no
// dependencies.
module github.com/punctual-rs/punctual/bindings/go/tests

go 1.24

require (
	github.com/punctual-rs/punctual/bindings/go/punctualtest v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
)

replace github.com/punctual-rs/punctual/bindings/go/punctualtest => ../punctualtest
