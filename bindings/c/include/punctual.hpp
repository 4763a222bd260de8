// Punctual for C++17: header-only, on punctual.h. The guide is bindings/c/README.md.
//
//   punctual::wheel<T>      a timing wheel that owns its values
//   punctual::channel<T>    a bounded channel between threads, and select over several channels
//   punctual::time          now, sleep, timer, ticker, after, after_func, tick, and a virtual clock
//
// Functions report errors as exceptions. No exception unwinds into C. Every class documents its
// thread safety.
#ifndef PUNCTUAL_HPP
#define PUNCTUAL_HPP

#include "punctual/channel.hpp"
#include "punctual/time.hpp"
#include "punctual/wheel.hpp"

#endif
