// CommonJS: starts a server, and prints by how much it moves the clock.
const { start } = require('@punctual/server');

start({ clock: 'virtual' }).then(async (server) => {
  const before = await server.now();
  console.log((await server.advance(3_600_000)) - before);
  await server.stop();
});
