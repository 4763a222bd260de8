// punctual::time: includes clock.hpp and timer.hpp, and defines channel::recv_for.
#ifndef PUNCTUAL_TIME_HPP
#define PUNCTUAL_TIME_HPP

#include "channel.hpp"
#include "clock.hpp"
#include "error.hpp"
#include "timer.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace punctual {

template <class T>
template <class Rep, class Period>
std::optional<T> channel<T>::recv_for(std::chrono::duration<Rep, Period> timeout) const {
  const std::chrono::nanoseconds ns(time::detail::to_ns(timeout));
  // A hundred years, which std::chrono can add to a time point without overflow.
  constexpr std::chrono::hours longest(24 * 365 * 100);
  if (state_ && !punctual_time_is_virtual()) {
    return state_->recv_until(std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(ns, longest));
  }
  std::optional<T> received = try_recv();
  if (received || closed() || ns.count() == 0) return received;
  if (punctual_time_is_advancing()) throw error(PUNCTUAL_REENTERED);
  const auto passed = time::after(ns);
  select(on_recv(*this, [&](std::optional<T> value) { received = std::move(value); }), on_recv(passed));
  return received;
}

}  // namespace punctual

#endif
