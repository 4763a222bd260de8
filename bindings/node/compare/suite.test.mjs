// A suite of 100 tests that each start a test double: PEER names it.
import { equal } from 'node:assert/strict';
import { test } from 'node:test';
import { peers } from './peers.mjs';

for (let number = 0; number < 100; number += 1) {
  test(`test ${number}`, async () => {
    const double = await peers[process.env.PEER].start();
    await double.client.set('session', number, 'EX', 1800);
    if (double.advance) {
      await double.advance(1_799_999);
      equal(await double.client.get('session'), String(number));
      await double.advance(1);
      equal(await double.client.get('session'), null);
    } else {
      equal(await double.client.get('session'), String(number));
    }
    await double.stop();
  });
}
