// Prints the median seconds from `start` to the first PONG, of 20 starts.
import { once } from 'node:events';
import { connect } from 'node:net';
import { start } from '@punctual/server';

const times = [];
for (let round = 0; round < 20; round += 1) {
  const began = performance.now();
  const server = await start({ clock: 'virtual' });
  const socket = connect(server.port, server.host);
  socket.write('PING\r\n');
  await once(socket, 'data');
  times.push(performance.now() - began);
  socket.destroy();
  await server.stop();
}
times.sort((a, b) => a - b);
console.log((times[10] / 1000).toFixed(4));
