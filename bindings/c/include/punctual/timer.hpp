// punctual::time: timers and tickers with channels or callbacks.
//
// A timer shares its state with the library, which calls `fire` on its own thread for each arming
// that was not stopped, maybe slightly after the timer counts as fired. `due` counts these pending
// calls, and `cancelled` those that a stop or a reset has cancelled, so that the channel gets no
// outdated time. Lock order: timer, channel.
#ifndef PUNCTUAL_TIMER_HPP
#define PUNCTUAL_TIMER_HPP

#include "channel.hpp"
#include "clock.hpp"
#include "error.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PUNCTUAL_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define PUNCTUAL_THREAD_SANITIZER 1
#endif
#ifdef PUNCTUAL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace punctual::time {

/// Handles an exception that a callback has thrown. Called on the callback's thread; must not
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

// Writes before an argument is passed to the library happen before the calls, and the calls happen
// before the destruction. The library's locks ensure this; these annotations make it known to
// ThreadSanitizer.
#ifdef PUNCTUAL_THREAD_SANITIZER
inline void release_to_tsan(void *argument) noexcept { __tsan_release(argument); }
inline void acquire_from_tsan(void *argument) noexcept { __tsan_acquire(argument); }
#else
inline void release_to_tsan(void *) noexcept {}
inline void acquire_from_tsan(void *) noexcept {}
#endif

/// Allocates the argument for the library: a new T, which `destroy` deletes.
template <class T>
void *give(T what) {
  void *argument = new T(std::move(what));
  release_to_tsan(argument);
  return argument;
}

/// Access to the argument during a call.
template <class T>
class borrowed_argument {
public:
  explicit borrowed_argument(void *argument) noexcept : argument_(argument) { acquire_from_tsan(argument_); }
  borrowed_argument(const borrowed_argument &) = delete;
  borrowed_argument &operator=(const borrowed_argument &) = delete;
  ~borrowed_argument() { release_to_tsan(argument_); }

  const T &operator*() const noexcept { return *static_cast<const T *>(argument_); }
  const T *operator->() const noexcept { return &**this; }

private:
  void *argument_;
};

template <class T>
void destroy(void *argument) noexcept {
  acquire_from_tsan(argument);
  delete static_cast<T *>(argument);
}

struct timer_freer {
  void operator()(punctual_timer *timer) const noexcept { punctual_timer_free(timer); }
};
using timer_handle = std::unique_ptr<punctual_timer, timer_freer>;

struct ticker_freer {
  void operator()(punctual_ticker *ticker) const noexcept { punctual_ticker_free(ticker); }
};
using ticker_handle = std::unique_ptr<punctual_ticker, ticker_freer>;

/// Throws the reason for a failed creation of a timer.
[[noreturn]] inline void throw_creation_error() { throw error(punctual_time_is_forked() ? PUNCTUAL_FORKED : PUNCTUAL_PANICKED); }

/// Creates a timer that calls `call` with `what`.
template <class T>
timer_handle make_timer(std::int64_t ns, void (*call)(void *) noexcept, T what) {
  timer_handle timer(punctual_after_func(ns, call, give(std::move(what)), destroy<T>));
  if (!timer) throw_creation_error();
  return timer;
}

template <class T>
ticker_handle make_ticker(std::int64_t ns, void (*call)(void *) noexcept, T what) {
  ticker_handle ticker(punctual_ticker_new(ns, call, give(std::move(what)), destroy<T>));
  if (!ticker) throw_creation_error();
  return ticker;
}

/// Sends the time if there is room.
inline void send_time(channel_state<time_point> &to) {
  time_point time = now();
  to.try_put(time);
}

/// State of a timer, shared with the library.
struct timer_state {
  std::mutex mutex;
  /// Receives the time; nil for a timer with a function.
  channel<time_point> c;
  std::function<void()> function;
  /// Number of pending calls of `fire`.
  std::size_t due = 0;
  /// Number of pending calls that are cancelled.
  std::size_t cancelled = 0;

  /// Empties the channel and cancels pending sends. Requires the mutex.
  void discard_pending_times() {
    if (c.is_nil()) return;
    cancelled = due;
    c.state()->drain();
  }
};

/// Calls a function and reports its exception.
inline void call(const std::function<void()> &function) noexcept {
  try {
    function();
  } catch (...) {
    on_exception.load()(std::current_exception());
  }
}

inline void fire(void *argument) noexcept {
  // A copy, because the function may destroy its timer.
  const borrowed_argument<std::shared_ptr<timer_state>> here(argument);
  const std::shared_ptr<timer_state> state = *here;
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    --state->due;
    if (state->cancelled > 0) {
      --state->cancelled;
      return;
    }
    if (!state->function) return send_time(*state->c.state());
  }
  call(state->function);
}

/// State of a ticker, shared with the library.
struct ticker_state {
  std::mutex mutex;
  channel<time_point> c{1};
  bool stopped = false;
};

inline void send_tick(void *argument) noexcept {
  const borrowed_argument<std::shared_ptr<ticker_state>> here(argument);
  ticker_state &state = **here;
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.stopped) send_time(*state.c.state());
}

/// The channel of after() or tick() and its timer, which is destroyed with the last copy of the
/// channel.
template <class Feeder>
struct fed_channel {
  channel_state<time_point> state{1};
  Feeder feeder;
};

inline void feed(void *argument) noexcept {
  const borrowed_argument<std::weak_ptr<channel_state<time_point>>> here(argument);
  if (const auto state = here->lock()) send_time(*state);
}

template <class Feeder>
channel<time_point> feed_channel(std::int64_t ns, Feeder (*make)(std::int64_t, void (*)(void *) noexcept,
                                                                 std::weak_ptr<channel_state<time_point>>)) {
  const auto fed = std::make_shared<fed_channel<Feeder>>();
  std::shared_ptr<channel_state<time_point>> state(fed, &fed->state);
  fed->feeder = make(ns, feed, state);
  return channel<time_point>(std::move(state));
}

/// Wraps any callable, copyable or not, into a std::function.
template <class Function>
std::function<void()> to_function(Function function) {
  if constexpr (std::is_copy_constructible_v<Function>) {
    return std::function<void()>(std::move(function));
  } else {
    return [shared = std::make_shared<Function>(std::move(function))] { (*shared)(); };
  }
}

}  // namespace detail

/// Sets the handler of exceptions thrown by callbacks; nullptr, the default, prints them to stderr.
/// Returns the previous handler.
///
/// Threads: any.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::on_exception.exchange(handler ? handler : detail::print_exception);
}

/// Fires once unless stopped before: sends the time into its channel, or calls a function
/// (after_func). Destruction disarms it. A moved-from timer is not armed, has the nil channel, and
/// cannot be reset.
///
/// Threads: any, also several at once; move and destroy it only while no other thread uses it.
class timer {
public:
  /// Arms a timer that sends the time after `delay`. Throws punctual::error if the library's thread
  /// cannot be started, or this process is a fork of the one that has it.
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> delay) : timer(delay, channel<time_point>(1), nullptr) {}

  /// Returns the channel that receives the time; the nil channel for a timer with a function.
  channel<time_point> c() const { return state_ ? state_->c : channel<time_point>(); }

  /// Stops it. Returns true if this call disarmed it. The channel is empty afterwards, and stays so
  /// until a reset. Otherwise its function was called, is running or is about to be called; this
  /// does not wait for it.
  bool stop() {
    if (!state_) return false;
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const bool disarmed = punctual_timer_stop(timer_.get());
    if (disarmed) --state_->due;
    state_->discard_pending_times();
    return disarmed;
  }

  /// Arms it again after it has fired or was stopped; its own function may call this. Removes an
  /// unreceived time. Throws std::logic_error if it is armed.
  template <class Rep, class Period>
  void reset(std::chrono::duration<Rep, Period> delay) {
    if (!state_) throw error(PUNCTUAL_NULL);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const punctual_status status = punctual_timer_reset(timer_.get(), detail::to_ns(delay));
    if (status == PUNCTUAL_ARMED) throw std::logic_error("timer::reset: the timer is armed; must be stopped or expired");
    check(status);
    state_->discard_pending_times();
    ++state_->due;
  }

private:
  template <class Rep, class Period, class Function>
  friend timer after_func(std::chrono::duration<Rep, Period> delay, Function function);

  template <class Rep, class Period>
  timer(std::chrono::duration<Rep, Period> delay, channel<time_point> c, std::function<void()> function)
      : state_(std::make_shared<detail::timer_state>()) {
    state_->c = std::move(c);
    state_->function = std::move(function);
    state_->due = 1;
    timer_ = detail::make_timer(detail::to_ns(delay), detail::fire, state_);
  }

  std::shared_ptr<detail::timer_state> state_;
  detail::timer_handle timer_;
};

/// Calls `function()` after `delay` on a thread of the library: a slow function delays no other
/// timer. Its exceptions are reported (set_exception_handler). Destroying the timer disarms it, so
/// keep it. A running call then continues, so objects that it uses must outlive it. If the timer is
/// reset before a call has returned, two calls may overlap.
///
/// Throws std::invalid_argument if `function` is empty (a null pointer, an empty std::function),
/// and the exceptions of timer::timer.
///
/// Threads: any.
template <class Rep, class Period, class Function>
[[nodiscard]] timer after_func(std::chrono::duration<Rep, Period> delay, Function function) {
  std::function<void()> call = detail::to_function(std::move(function));
  if (!call) throw std::invalid_argument("after_func: the function is empty");
  return timer(delay, channel<time_point>(), std::move(call));
}

/// Returns a channel that receives the time after `delay`. The timer is destroyed with the last
/// copy of the channel, so it need not be stopped. Throws the exceptions of timer::timer.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> after(std::chrono::duration<Rep, Period> delay) {
  return detail::feed_channel(detail::to_ns(delay), detail::make_timer<std::weak_ptr<detail::channel_state<time_point>>>);
}

/// Sends the time at every period into a channel with room for one: ticks not received in time are
/// skipped, not queued, and the others stay at multiples of the period. Destruction stops it. A
/// moved-from ticker has the nil channel.
///
/// Threads: any, also several at once; move and destroy it only while no other thread uses it.
class ticker {
public:
  /// Throws std::invalid_argument if the period is not positive, and the exceptions of
  /// timer::timer.
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> period) : state_(std::make_shared<detail::ticker_state>()) {
    const std::int64_t ns = detail::to_ns(period);
    if (ns == 0) throw std::invalid_argument("ticker: the period must be positive");
    ticker_ = detail::make_ticker(ns, detail::send_tick, state_);
  }

  /// Returns the channel that receives the times.
  channel<time_point> c() const { return state_ ? state_->c : channel<time_point>(); }

  /// Stops it permanently. The channel is empty afterwards, and stays so.
  void stop() {
    if (!state_) return;
    punctual_ticker_stop(ticker_.get());
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopped = true;
    state_->c.state()->drain();
  }

private:
  std::shared_ptr<detail::ticker_state> state_;
  detail::ticker_handle ticker_;
};

/// Returns a channel that receives the time at every period, like a ticker's, until its last copy
/// is destroyed. The nil channel, which never receives, if the period is not positive. Throws the
/// exceptions of timer::timer.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> tick(std::chrono::duration<Rep, Period> period) {
  const std::int64_t ns = detail::to_ns(period);
  if (ns == 0) return {};
  return detail::feed_channel(ns, detail::make_ticker<std::weak_ptr<detail::channel_state<time_point>>>);
}

}  // namespace punctual::time

#endif
