// punctual::time: the time, sleeping, and a virtual clock, in std::chrono's terms.
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

/// The clock in force on the calling thread: the monotonic one, or a virtual_time it has entered. Its moments are
/// told from an early one in the life of the process.
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

/// Nanoseconds. Any std::chrono duration is taken; what is finer is rounded up, so that nothing fires early. What is
/// too long for nanoseconds is 292 years, what is negative or not a number is nothing.
using duration = clock::duration;
/// A moment of punctual::time::clock.
using time_point = clock::time_point;

/// The time of the clock in force on this thread.
///
/// Threads: any.
inline time_point now() noexcept { return clock::now(); }

namespace detail {

/// In nanoseconds, rounded up; the nearest there is if it is out of range.
template <class Rep, class Period>
std::int64_t to_ns(std::chrono::duration<Rep, Period> time) noexcept {
  constexpr std::int64_t longest = duration::max().count();
  if (!(time.count() > 0)) return 0;
  if constexpr (!std::chrono::treat_as_floating_point_v<Rep>) {
    // Exact, if it does not overflow on its way.
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

/// Sleeps for so long, never less. On a virtual clock: until another thread has advanced that. Throws
/// punctual::error in a callback of a virtual clock, which would wait for itself.
///
/// Threads: any.
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> time) {
  check(punctual_sleep_ns(detail::to_ns(time)));
}

/// A clock for tests: it stands still until advance() moves it, and what falls due meanwhile goes off at its
/// own time, in order. Nothing sleeps. It is in force on threads that have entered it.
///
/// Threads: any, also several at once.
class virtual_time {
public:
  /// A clock that shows the time that the real one shows now.
  virtual_time() : clock_(punctual_virtual_time_new()) {
    if (!clock_) throw error(PUNCTUAL_PANICKED);
  }

  /// A thread's stay on the clock, to be ended by that thread.
  class [[nodiscard]] entered {
  public:
    explicit entered(virtual_time &time) : clock_(time.clock_.get()) { check(punctual_virtual_time_enter(clock_)); }
    entered(const entered &) = delete;
    entered &operator=(const entered &) = delete;
    ~entered() { punctual_virtual_time_leave(clock_); }

  private:
    punctual_virtual_time *clock_;
  };

  /// Puts it in force on this thread, for as long as what it gives lives.
  entered enter() { return entered(*this); }

  /// The time it shows.
  time_point now() const noexcept { return time_point(duration(punctual_virtual_time_now_ns(clock_.get()))); }

  /// Moves it forward, firing what falls due, here and in order. Throws punctual::error in a callback of a
  /// virtual clock.
  template <class Rep, class Period>
  void advance(std::chrono::duration<Rep, Period> by) {
    check(punctual_virtual_time_advance(clock_.get(), detail::to_ns(by)));
  }

  /// Moves it forward to the earliest deadline; false if there is none.
  bool advance_to_next() {
    const punctual_status status = punctual_virtual_time_advance_to_next(clock_.get());
    if (status != PUNCTUAL_IDLE) check(status);
    return status == PUNCTUAL_OK;
  }

  /// How many timers and sleepers wait for it.
  std::size_t pending() const noexcept { return punctual_virtual_time_pending(clock_.get()); }

  /// Waits until that many do: until other threads have gone to sleep.
  void wait_for_pending(std::size_t count) { check(punctual_virtual_time_wait_for_pending(clock_.get(), count)); }

private:
  struct freer {
    void operator()(punctual_virtual_time *clock) const noexcept { punctual_virtual_time_free(clock); }
  };
  std::unique_ptr<punctual_virtual_time, freer> clock_;
};

}  // namespace punctual::time

#endif
