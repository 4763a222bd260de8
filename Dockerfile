# Builds the server and puts it alone into a small image:
#   docker build -t punctual .
#   docker run --rm -p 127.0.0.1:6379:6379 -v punctual:/data punctual --requirepass secret
# The server runs as an unprivileged user and writes only to /data.
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --profile dist -p punctual-server --bin punctual

FROM debian:bookworm-slim
RUN useradd --system --user-group --home-dir /data --shell /usr/sbin/nologin punctual \
    && install -d -o punctual -g punctual -m 0750 /data
COPY --from=build /source/target/dist/punctual /usr/local/bin/punctual
USER punctual
WORKDIR /data
VOLUME /data
EXPOSE 6379
# `punctual` saves and ends on SIGTERM.
STOPSIGNAL SIGTERM
ENTRYPOINT ["punctual", "--bind", "*", "--dir", "/data"]
