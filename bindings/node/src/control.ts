/** The connection by which `PunctualServer` moves the server's clock. */

import { createConnection, type Socket } from 'node:net';

interface Waiter {
  resolve(reply: string): void;
  reject(error: Error): void;
}

/** Address of a server, and the password that `requirepass` has set. */
export interface Address {
  host: string;
  port: number;
  password?: string;
}

/**
 * Sends commands whose replies are one line. The connection opens at the first command, and again
 * if it has been closed. It keeps Node running only while a reply is outstanding.
 */
export class Control {
  readonly #address: Address;
  #socket: Socket | undefined;
  #waiting: Waiter[] = [];
  #input = '';

  constructor(address: Address) {
    this.#address = address;
  }

  /**
   * Sends a command and returns its reply, without the byte of its type.
   *
   * @throws Error with the server's message, or if the connection is closed before the reply.
   */
  async call(...words: string[]): Promise<string> {
    if (this.#socket === undefined) {
      const { password } = this.#address;
      this.#connect();
      const replies = [
        password === undefined ? undefined : this.#send(['AUTH', password]),
        this.#send(['CLIENT', 'SETNAME', 'punctual-control']),
        this.#send(words),
      ];
      return (await Promise.all(replies)).at(-1) as string;
    }
    return this.#send(words);
  }

  /** Closes the connection. */
  close(): void {
    this.#socket?.destroy();
  }

  #connect(): void {
    const { host, port } = this.#address;
    const socket = createConnection({ host, port, noDelay: true });
    let reason = 'the server has closed the connection';
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#receive(text));
    socket.on('error', (error) => {
      reason = error.message;
    });
    socket.on('close', () => {
      this.#socket = undefined;
      this.#input = '';
      const waiting = this.#waiting.splice(0);
      for (const waiter of waiting) {
        waiter.reject(new Error(`@punctual/server: no reply from ${host}:${port}: ${reason}`));
      }
    });
    this.#socket = socket;
  }

  #send(words: string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
      this.#socket?.ref();
      this.#socket?.write(`*${words.length}\r\n${parts.join('')}`);
    });
  }

  #receive(text: string): void {
    const lines = (this.#input + text).split('\r\n');
    this.#input = lines.pop() ?? '';
    for (const line of lines) {
      const waiter = this.#waiting.shift();
      if (line.startsWith('-')) {
        waiter?.reject(new Error(line.slice(1)));
      } else {
        waiter?.resolve(line.slice(1));
      }
    }
    if (this.#waiting.length === 0) {
      this.#socket?.unref();
    }
  }
}
