// punctual::time: timers, tickers and callbacks over punctual.h, with channels and std::chrono.
//
// Everything is on the clock that is in force on the calling thread: the monotonic one, or a virtual_time it
// has entered.
//
// A timer's state is shared with the library, which calls `fire` for each arming that was not stopped, on a
// thread of its own, maybe a little after the timer was found fired. `due` counts those calls to come,
// `refused` those of them that a stop has made void, so that a channel stays empty after stop() has returned.
// Locks: a timer's, then its channel's.
#ifndef PUNCTUAL_TIME_HPP
#define PUNCTUAL_TIME_HPP

#include "channel.hpp"
#include "error.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace punctual::time {

/// The clock in force on the calling thread. Its moments are told from an early one in the life of the process.
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

/// Nanoseconds. Any std::chrono duration is taken; what is finer is rounded up, so that nothing fires early.
using duration = clock::duration;
/// A moment of punctual::time::clock.
using time_point = clock::time_point;

/// The time of the clock in force on this thread.
///
/// Threads: any.
inline time_point now() noexcept { return clock::now(); }

/// What to do with an exception that a callback has thrown. Called on the thread of that callback; it must not
/// throw.
using exception_handler = void (*)(std::exception_ptr);

namespace detail {

using punctual::detail::channel_state;

inline void print_exception(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::exception &exception) {
    std::fprintf(stderr, "punctual: a callback threw: %s\n", exception.what());
  } catch (...) {
    std::fprintf(stderr, "punctual: a callback threw something that is no std::exception\n");
  }
}

inline std::atomic<exception_handler> on_exception{print_exception};

/// In nanoseconds, rounded up; the nearest there is if it is out of range.
template <class Rep, class Period>
std::int64_t to_ns(std::chrono::duration<Rep, Period> time) noexcept {
  using wide = std::chrono::duration<long double, std::nano>;
  const wide exact = std::chrono::duration_cast<wide>(time);
  if (!(exact > wide::zero())) return 0;
  if (exact >= wide(static_cast<long double>(duration::max().count()))) return duration::max().count();
  return std::chrono::ceil<duration>(time).count();
}

/// What a timer or a ticker does, shared with the library.
struct shared_deed {
  std::mutex mutex;
  /// Where the time goes; nil if there is a function to be called instead.
  channel<time_point> c;
  std::function<void()> function;
  /// Calls of `fire` to come.
  std::size_t due = 0;
  /// So many of them have been made void.
  std::size_t refused = 0;
  /// A ticker that was stopped.
  bool stopped = false;

};

/// Sends the time, if there is room.
inline void send_time(channel_state<time_point> &to) {
  time_point time = now();
  to.try_put(time);
}

/// Calls back; what it throws is reported.
inline void call(const std::function<void()> &function) noexcept {
  try {
    function();
  } catch (...) {
    on_exception.load()(std::current_exception());
  }
}

// The functions that the library calls. Each argument is a std::shared_ptr of its own.

template <class T>
T &shared(void *argument) noexcept {
  return **static_cast<std::shared_ptr<T> *>(argument);
}

template <class T>
void *share(const std::shared_ptr<T> &what) {
  return new std::shared_ptr<T>(what);
}

template <class T>
void forget(void *argument) noexcept {
  delete static_cast<std::shared_ptr<T> *>(argument);
}

inline void fire(void *argument) noexcept {
  // Held: the function may destroy its timer.
  const std::shared_ptr<shared_deed> deed = *static_cast<std::shared_ptr<shared_deed> *>(argument);
  {
    const std::lock_guard<std::mutex> lock(deed->mutex);
    --deed->due;
    if (deed->refused > 0) {
      --deed->refused;
      return;
    }
    if (!deed->function) return send_time(*deed->c.state());
  }
  call(deed->function);
}

inline void send_tick(void *argument) noexcept {
  shared_deed &deed = shared<shared_deed>(argument);
  const std::lock_guard<std::mutex> lock(deed.mutex);
  if (!deed.stopped) send_time(*deed.c.state());
}

struct timer_freer {
  void operator()(punctual_timer *timer) const noexcept { punctual_timer_free(timer); }
};

struct ticker_freer {
  void operator()(punctual_ticker *ticker) const noexcept { punctual_ticker_free(ticker); }
};

}  // namespace detail

/// Has exceptions that callbacks throw handled by `handler`; nullptr: printed to stderr, as from the start.
/// Gives the one before.
///
/// Threads: any.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::on_exception.exchange(handler ? handler : detail::print_exception);
}

/// Sleeps for so long, never less. On a virtual clock: until another thread has advanced that. Throws
/// punctual::error in a callback of a virtual clock, which would wait for itself.
///
/// Threads: any.
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> time) {
  check(punctual_sleep_ns(detail::to_ns(time)));
}

/// Fires once, unless it is stopped before: sends the time into its channel, or calls a function (after_func).
/// Destroying it disarms it.
///
/// Threads: any, also several at once; moving and destroying it, as usual, by one that knows that no other uses
/// it.
class timer {
public:
  /// A timer that sends in so long. Throws punctual::error if the library's thread cannot be started.
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> delay) : timer(delay, channel<time_point>(1), nullptr) {}

  /// Where it sends; of a timer that calls a function the nil channel.
  channel<time_point> c() const { return deed_->c; }

  /// Stops it: true if it was armed, and this disarmed it. The channel is empty afterwards, and stays so until
  /// a reset. A function that was not disarmed has been called, or will be in a moment.
  bool stop() {
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    const bool disarmed = punctual_timer_stop(timer_.get());
    if (disarmed) --deed_->due;
    if (!deed_->c.is_nil()) {
      deed_->refused = deed_->due;
      deed_->c.state()->drain();
    }
    return disarmed;
  }

  /// Arms it again after it has fired or was stopped; its own function may do that. Throws std::logic_error if
  /// it is armed.
  template <class Rep, class Period>
  void reset(std::chrono::duration<Rep, Period> delay) {
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    const punctual_status status = punctual_timer_reset(timer_.get(), detail::to_ns(delay));
    if (status == PUNCTUAL_ARMED) throw std::logic_error("timer::reset: the timer is armed; must be stopped or expired");
    check(status);
    ++deed_->due;
  }

private:
  template <class Rep, class Period, class Function>
  friend timer after_func(std::chrono::duration<Rep, Period> delay, Function function);

  template <class Rep, class Period>
  timer(std::chrono::duration<Rep, Period> delay, channel<time_point> c, std::function<void()> function)
      : deed_(std::make_shared<detail::shared_deed>()) {
    deed_->c = std::move(c);
    deed_->function = std::move(function);
    deed_->due = 1;
    timer_.reset(punctual_after_func(detail::to_ns(delay), detail::fire, detail::share(deed_),
                                     detail::forget<detail::shared_deed>));
    if (!timer_) throw error(PUNCTUAL_PANICKED);
  }

  std::shared_ptr<detail::shared_deed> deed_;
  std::unique_ptr<punctual_timer, detail::timer_freer> timer_;
};

/// Calls `function()` in so long, on a thread of the library: one that takes long delays no other timer. What
/// it throws is reported (set_exception_handler) and harms nothing. Its timer disarms it when it is destroyed,
/// so keep that.
///
/// `function` must be copyable. Throws punctual::error if the library's thread cannot be started.
///
/// Threads: any.
template <class Rep, class Period, class Function>
[[nodiscard]] timer after_func(std::chrono::duration<Rep, Period> delay, Function function) {
  return timer(delay, channel<time_point>(), std::function<void()>(std::move(function)));
}

/// A channel that gets the time in so long.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> after(std::chrono::duration<Rep, Period> delay) {
  const auto deed = std::make_shared<detail::shared_deed>();
  deed->c = channel<time_point>(1);
  deed->due = 1;
  punctual_timer *timer = punctual_after_func(detail::to_ns(delay), detail::fire, detail::share(deed),
                                              detail::forget<detail::shared_deed>);
  if (!timer) throw error(PUNCTUAL_PANICKED);
  punctual_timer_detach(timer);
  return deed->c;
}

/// Sends the time at every period into a channel with room for one: ticks that nobody has received in time are
/// skipped, not queued, and the others stay at multiples of the period. Destroying it stops it.
///
/// Threads: any, also several at once; moving and destroying it, as usual, by one that knows that no other uses
/// it.
class ticker {
public:
  /// Throws std::invalid_argument if the period is not positive, punctual::error if the library's thread cannot
  /// be started.
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> period) : deed_(std::make_shared<detail::shared_deed>()) {
    const std::int64_t ns = detail::to_ns(period);
    if (ns == 0) throw std::invalid_argument("ticker: the period must be positive");
    deed_->c = channel<time_point>(1);
    ticker_.reset(
        punctual_ticker_new(ns, detail::send_tick, detail::share(deed_), detail::forget<detail::shared_deed>));
    if (!ticker_) throw error(PUNCTUAL_PANICKED);
  }

  /// Where it sends.
  channel<time_point> c() const { return deed_->c; }

  /// Stops it for good. The channel is empty afterwards, and stays so.
  void stop() {
    punctual_ticker_stop(ticker_.get());
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    deed_->stopped = true;
    deed_->c.state()->drain();
  }

private:
  std::shared_ptr<detail::shared_deed> deed_;
  std::unique_ptr<punctual_ticker, detail::ticker_freer> ticker_;
};

namespace detail {

/// A ticker of tick(), which ends when nobody has its channel any more.
struct shared_ticker {
  std::weak_ptr<channel_state<time_point>> c;
  /// Set a moment after the first tick may come.
  std::atomic<punctual_ticker *> ticker{nullptr};
};

inline void send_endless_tick(void *argument) noexcept {
  shared_ticker &endless = shared<shared_ticker>(argument);
  if (const auto c = endless.c.lock()) {
    send_time(*c);
  } else {
    punctual_ticker_free(endless.ticker.exchange(nullptr));
  }
}

}  // namespace detail

/// A channel that gets the time at every period, as a ticker's does, for as long as somebody has it. The nil
/// channel if the period is not positive: it never ticks.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> tick(std::chrono::duration<Rep, Period> period) {
  const std::int64_t ns = detail::to_ns(period);
  if (ns == 0) return {};
  channel<time_point> c(1);
  const auto endless = std::make_shared<detail::shared_ticker>();
  endless->c = c.state();
  punctual_ticker *ticker =
      punctual_ticker_new(ns, detail::send_endless_tick, detail::share(endless), detail::forget<detail::shared_ticker>);
  if (!ticker) throw error(PUNCTUAL_PANICKED);
  endless->ticker = ticker;
  return c;
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

namespace punctual {

template <class T>
template <class Rep, class Period>
std::optional<T> channel<T>::recv_for(std::chrono::duration<Rep, Period> timeout) const {
  const std::chrono::nanoseconds ns(time::detail::to_ns(timeout));
  // Far enough, and std::chrono can add it to a time.
  constexpr std::chrono::hours longest(24 * 365 * 100);
  if (state_ && !punctual_time_is_virtual()) {
    return state_->recv_until(std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(ns, longest));
  }
  std::optional<T> received = try_recv();
  if (received || closed() || ns.count() == 0) return received;
  time::timer timer(timeout);
  select(on_recv(*this, [&](std::optional<T> value) { received = std::move(value); }), on_recv(timer.c(), [](auto) {}));
  return received;
}

}  // namespace punctual

#endif
