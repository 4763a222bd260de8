// Punctual for C++17: header-only, over punctual.h. The guide is bindings/c/README.md.
//
//   punctual::wheel<T>      a timing wheel that owns its values
//   punctual::channel<T>    a bounded channel between threads, and select over several
//   punctual::time          now, sleep, timer, ticker, after, after_func, tick; a virtual clock for tests
//
// Everything that fails throws; nothing throws across the C boundary. Every class says which threads may use
// it.
#ifndef PUNCTUAL_HPP
#define PUNCTUAL_HPP

#include "punctual/channel.hpp"
#include "punctual/time.hpp"
#include "punctual/wheel.hpp"

#endif
