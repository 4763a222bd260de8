// socket.io's Redis adapter: two servers, broadcasts, rooms, acknowledgements, remote sockets, with node-redis and
// ioredis; sharded.
// Packages: @socket.io/redis-adapter socket.io socket.io-client redis ioredis
import { once } from "node:events";
import { createServer } from "node:http";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Server } from "socket.io";
import { io } from "socket.io-client";
import { equal, report, step, until, url } from "./verdict.js";

async function serve(adapter) {
  const http = createServer().listen(0, "127.0.0.1");
  await once(http, "listening");
  const server = new Server(http, { adapter });
  server.on("connection", (socket) => socket.on("join", (room, done) => Promise.resolve(socket.join(room)).then(() => done())));
  const socket = io(`http://127.0.0.1:${http.address().port}`, { transports: ["websocket"], forceNew: true });
  await once(socket, "connect");
  return { server, socket };
}

async function tryAll(name, adapter) {
  step(`${name}: broadcasts`);
  const [one, two] = [await serve(await adapter()), await serve(await adapter())];
  const heard = [];
  two.socket.on("news", (text) => heard.push(text));
  two.socket.on("question", (text, answer) => answer(`${text}!`));
  one.socket.on("question", (text, answer) => answer(`${text}?`));
  // The other server may subscribe after its client has connected, so the message is repeated.
  await until(() => one.server.emit("news", "all") && heard.includes("all"));
  step(`${name}: rooms`);
  await two.socket.emitWithAck("join", "room");
  await until(() => one.server.to("room").emit("news", "room") && heard.includes("room"));
  step(`${name}: acknowledgements`);
  equal((await one.server.timeout(5000).emitWithAck("question", "so")).sort(), ["so!", "so?"]);
  step(`${name}: remote sockets`);
  equal((await one.server.fetchSockets()).map(({ id }) => id).sort(), [one.socket.id, two.socket.id].sort());
  one.server.in(one.socket.id).socketsJoin("later");
  await until(async () => (await two.server.in("later").fetchSockets()).length === 1);
  const told = new Promise((resolve) => two.server.on("told", resolve));
  one.server.serverSideEmit("told", "us");
  equal(await told, "us");
  two.socket.on("disconnect", () => heard.push("gone"));
  one.server.in(two.socket.id).disconnectSockets(true);
  await until(() => heard.includes("gone"));
}

report(async () => {
  const pair = async (make) => [await make(), await make()];
  const nodeRedis = () => createClient({ url }).connect();
  await tryAll("node-redis", async () => createAdapter(...(await pair(nodeRedis)), { key: "a" }));
  await tryAll("ioredis", async () => createAdapter(...(await pair(async () => new Redis(url))), { key: "b" }));
  await tryAll("sharded", async () => createShardedAdapter(...(await pair(nodeRedis)), { channelPrefix: "c" }));
});
