// Checks that the compiler supports these headers.
#ifndef PUNCTUAL_LANGUAGE_HPP
#define PUNCTUAL_LANGUAGE_HPP

#if defined(_MSVC_LANG) ? _MSVC_LANG < 201703L : __cplusplus < 201703L
#error "punctual.hpp needs C++17"
#endif

#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "punctual.hpp needs exceptions; punctual.h needs none"
#endif

#endif
