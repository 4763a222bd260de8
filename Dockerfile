# Builds the server, and puts it with the libraries that it needs into an image without a distribution:
#   docker build -t punctual .
#   docker run --rm -p 127.0.0.1:6379:6379 -v punctual:/data punctual --requirepass secret
# The server runs as an unprivileged user and writes only to /data.
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --profile dist -p punctual-server --bin punctual \
    && strip target/dist/punctual \
    && packaging/container/root target/dist/punctual /image

FROM scratch
COPY --from=build /image/files /
COPY --from=build --chown=999:999 /image/data /data
USER 999:999
WORKDIR /data
VOLUME /data
EXPOSE 6379
# `punctual` saves and ends on SIGTERM.
STOPSIGNAL SIGTERM
ENTRYPOINT ["punctual", "--bind", "*", "--dir", "/data"]
