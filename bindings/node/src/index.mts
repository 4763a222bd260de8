// The same module as for `require`, so that a program never has two copies of it.
export * from './index.js';
