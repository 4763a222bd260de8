// socket.io's Redis streams adapter: two servers, broadcasts, rooms, acknowledgements, remote sockets, and a client that
// was away.
// Packages: @socket.io/redis-streams-adapter socket.io socket.io-client redis
import { once } from "node:events";
import { createServer } from "node:http";
import { createAdapter } from "@socket.io/redis-streams-adapter";
import { createClient } from "redis";
import { Server } from "socket.io";
import { io } from "socket.io-client";
import { equal, report, step, until, url } from "./verdict.js";

async function serve() {
  const http = createServer().listen(0, "127.0.0.1");
  await once(http, "listening");
  const client = await createClient({ url }).connect();
  const server = new Server(http, { adapter: createAdapter(client), connectionStateRecovery: {} });
  server.on("connection", (socket) => socket.on("join", (room, done) => Promise.resolve(socket.join(room)).then(() => done())));
  const socket = io(`http://127.0.0.1:${http.address().port}`, { transports: ["websocket"], forceNew: true, reconnectionDelay: 100 });
  await once(socket, "connect");
  return { server, socket };
}

report(async () => {
  const [one, two] = [await serve(), await serve()];
  const heard = [];
  two.socket.on("news", (text) => heard.push(text));
  two.socket.on("question", (text, answer) => answer(`${text}!`));
  one.socket.on("question", (text, answer) => answer(`${text}?`));
  step("broadcasts");
  await until(() => one.server.emit("news", "all") && heard.includes("all"));
  step("rooms");
  await two.socket.emitWithAck("join", "room");
  await until(() => one.server.to("room").emit("news", "room") && heard.includes("room"));
  step("acknowledgements");
  equal((await one.server.timeout(5000).emitWithAck("question", "so")).sort(), ["so!", "so?"]);
  step("remote sockets");
  equal((await one.server.fetchSockets()).length, 2);
  step("a client that was away");
  two.socket.io.engine.close();
  one.server.emit("news", "while away");
  await until(() => heard.includes("while away"));
  equal(two.socket.recovered, true);
});
