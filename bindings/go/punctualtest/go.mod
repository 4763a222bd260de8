module github.com/punctual-rs/punctual/bindings/go/punctualtest

go 1.21
