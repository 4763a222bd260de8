// punctual::time: the current time, sleeping, and a virtual clock, with std::chrono.
#ifndef PUNCTUAL_CLOCK_HPP
#define PUNCTUAL_CLOCK_HPP

#include "error.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ratio>

namespace punctual::time {

/// The clock in effect on the calling thread: the monotonic clock, or a virtual_time that the
/// thread has entered. Its epoch is early in the life of the process.
///
/// Threads: any.
struct clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept { return time_point(duration(punctual_now_ns())); }
};

/// Nanoseconds. Functions accept any std::chrono duration and convert it to nanoseconds. They round
/// a fraction up, so that no timer fires early. A duration of more than 292 years becomes 292
/// years. A negative duration and NaN become zero.
using duration = clock::duration;
/// A time point of punctual::time::clock.
using time_point = clock::time_point;

/// Returns the time of the clock in effect on this thread.
///
/// Threads: any.
inline time_point now() noexcept { return clock::now(); }

namespace detail {

/// Converts a duration to nanoseconds, rounded up. Saturates at 0 and INT64_MAX.
template <class Rep, class Period>
std::int64_t to_ns(std::chrono::duration<Rep, Period> time) noexcept {
  constexpr std::int64_t longest = duration::max().count();
  if (!(time.count() > 0)) return 0;
  if constexpr (!std::chrono::treat_as_floating_point_v<Rep>) {
    // Integer arithmetic is exact if the multiplication does not overflow.
    using factor = std::ratio_divide<Period, std::nano>;
    if (static_cast<std::uintmax_t>(time.count()) <= static_cast<std::uintmax_t>(longest / factor::num)) {
      return std::chrono::ceil<duration>(time).count();
    }
    if constexpr (factor::den == 1) return longest;
  }
  using wide = std::chrono::duration<long double, std::nano>;
  const long double rounded = std::ceil(std::chrono::duration_cast<wide>(time).count());
  return rounded >= static_cast<long double>(longest) ? longest : static_cast<std::int64_t>(rounded);
}

}  // namespace detail

/// Sleeps for at least `time`. On a virtual clock, it blocks until another thread has advanced the
/// clock by `time`. Throws punctual::error in a callback of a virtual clock, where it would wait
/// for its own thread.
///
/// Threads: any.
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> time) {
  check(punctual_sleep_ns(detail::to_ns(time)));
}

/// A clock for tests. It moves only by advance() and advance_to_next(), and timers fire at their
/// own times, in order, without real waiting. The clock is in effect on threads that have entered
/// it.
///
/// Threads: any, and several threads at once.
class virtual_time {
public:
  /// Creates a clock that starts at the current time of the real clock.
  virtual_time() : clock_(punctual_virtual_time_new()) {
    if (!clock_) throw error(PUNCTUAL_PANICKED);
  }

  /// A guard: the clock is in effect on the thread while the guard exists. The same thread must
  /// destroy the guard.
  class [[nodiscard]] entered {
  public:
    explicit entered(virtual_time &time) : clock_(time.clock_.get()) { check(punctual_virtual_time_enter(clock_)); }
    entered(const entered &) = delete;
    entered &operator=(const entered &) = delete;
    ~entered() { punctual_virtual_time_leave(clock_); }

  private:
    punctual_virtual_time *clock_;
  };

  /// Puts the clock into effect on this thread until the returned guard is destroyed.
  entered enter() { return entered(*this); }

  /// Returns the time of this clock.
  time_point now() const noexcept { return time_point(duration(punctual_virtual_time_now_ns(clock_.get()))); }

  /// Advances the clock and fires due timers on this thread, in order. Throws punctual::error in a
  /// callback of a virtual clock.
  template <class Rep, class Period>
  void advance(std::chrono::duration<Rep, Period> by) {
    check(punctual_virtual_time_advance(clock_.get(), detail::to_ns(by)));
  }

  /// Advances the clock to the earliest deadline. Returns false if no timer is armed.
  bool advance_to_next() {
    const punctual_status status = punctual_virtual_time_advance_to_next(clock_.get());
    if (status != PUNCTUAL_IDLE) check(status);
    return status == PUNCTUAL_OK;
  }

  /// Returns the number of armed timers and sleeping threads on this clock.
  std::size_t pending() const noexcept { return punctual_virtual_time_pending(clock_.get()); }

  /// Blocks until the clock has at least `count` armed timers and sleeping threads, for example
  /// until another thread sleeps.
  void wait_for_pending(std::size_t count) { check(punctual_virtual_time_wait_for_pending(clock_.get(), count)); }

private:
  struct freer {
    void operator()(punctual_virtual_time *clock) const noexcept { punctual_virtual_time_free(clock); }
  };
  std::unique_ptr<punctual_virtual_time, freer> clock_;
};

}  // namespace punctual::time

#endif
