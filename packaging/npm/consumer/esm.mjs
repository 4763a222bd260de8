// An ECMAScript module: starts a server, and prints the reply to PING.
import { once } from 'node:events';
import { connect } from 'node:net';
import { start } from '@punctual/server';

const server = await start({ clock: 'virtual' });
const socket = connect(server.port, server.host);
socket.write('PING\r\n');
console.log(String(await once(socket, 'data')).trim());
socket.destroy();
await server.stop();
