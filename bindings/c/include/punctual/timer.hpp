// punctual::time: timers and tickers that send to channels or call functions.
//
// A timer shares its state with the C library, which calls `fire` on one of its threads for each
// arming that was not stopped, perhaps shortly after the timer counts as fired. `due` counts the
// calls that are still to come. `cancelled` counts those of them that a stop or a reset has
// cancelled, so that they send no outdated time. Lock order: timer, channel.
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

/// A function that handles an exception of a callback. It is called on the callback's thread, and
/// must not throw.
using exception_handler = void (*)(std::exception_ptr);

namespace detail {

using punctual::detail::channel_state;

inline void print_exception(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::exception &exception) {
    std::fprintf(stderr, "punctual: a callback threw: %s\n", exception.what());
  } catch (...) {
    std::fprintf(stderr, "punctual: a callback threw an object that is not a std::exception\n");
  }
}

inline std::atomic<exception_handler> on_exception{print_exception};

// The library's locks order memory accesses: writes before an argument is passed to the library
// happen before the calls, and the calls happen before the destruction of the argument. These
// annotations report that order to ThreadSanitizer.
#ifdef PUNCTUAL_THREAD_SANITIZER
inline void release_to_tsan(void *argument) noexcept { __tsan_release(argument); }
inline void acquire_from_tsan(void *argument) noexcept { __tsan_acquire(argument); }
#else
inline void release_to_tsan(void *) noexcept {}
inline void acquire_from_tsan(void *) noexcept {}
#endif

/// Returns the argument of a callback for the C library: a pointer to a new T, which `destroy`
/// deletes.
template <class T>
void *to_argument(T value) {
  void *argument = new T(std::move(value));
  release_to_tsan(argument);
  return argument;
}

/// Gives access to the argument during a call.
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

/// Throws an error with the reason why a timer could not be created.
[[noreturn]] inline void throw_creation_error() { throw error(punctual_time_is_forked() ? PUNCTUAL_FORKED : PUNCTUAL_PANICKED); }

/// Creates a timer that calls `call` with a pointer to `value`.
template <class T>
timer_handle make_timer(std::int64_t ns, void (*call)(void *) noexcept, T value) {
  timer_handle timer(punctual_after_func(ns, call, to_argument(std::move(value)), destroy<T>));
  if (!timer) throw_creation_error();
  return timer;
}

template <class T>
ticker_handle make_ticker(std::int64_t ns, void (*call)(void *) noexcept, T value) {
  ticker_handle ticker(punctual_ticker_new(ns, call, to_argument(std::move(value)), destroy<T>));
  if (!ticker) throw_creation_error();
  return ticker;
}

/// Sends the current time if the channel has room.
inline void send_time(channel_state<time_point> &to) {
  time_point time = now();
  to.try_put(time);
}

/// The state of a timer, shared with the C library.
struct timer_state {
  std::mutex mutex;
  /// The channel to which the timer sends. The nil channel for a timer with a function.
  channel<time_point> c;
  std::function<void()> function;
  /// Number of calls of `fire` that are still to come: for firings, and for the armed timer.
  std::size_t due = 0;
  /// Number of these calls that a stop or a reset has cancelled.
  std::size_t cancelled = 0;

  /// Empties the channel and cancels pending calls of `fire`. The mutex must be held.
  void discard_pending_times() {
    if (c.is_nil()) return;
    cancelled = due;
    c.state()->drain();
  }
};

/// Calls a function and passes an exception to the handler.
inline void call(const std::function<void()> &function) noexcept {
  try {
    function();
  } catch (...) {
    on_exception.load()(std::current_exception());
  }
}

inline void fire(void *argument) noexcept {
  // Copies the shared pointer, because the function may destroy its timer.
  const borrowed_argument<std::shared_ptr<timer_state>> borrowed(argument);
  const std::shared_ptr<timer_state> state = *borrowed;
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

/// The state of a ticker, shared with the C library.
struct ticker_state {
  std::mutex mutex;
  channel<time_point> c{1};
  bool stopped = false;
};

inline void send_tick(void *argument) noexcept {
  const borrowed_argument<std::shared_ptr<ticker_state>> borrowed(argument);
  ticker_state &state = **borrowed;
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.stopped) send_time(*state.c.state());
}

/// The state of a channel of after() or tick(), with its timer. The timer is destroyed with the
/// last copy of the channel.
template <class Timer>
struct channel_with_timer {
  channel_state<time_point> state{1};
  Timer timer;
};

inline void send_to_channel(void *argument) noexcept {
  const borrowed_argument<std::weak_ptr<channel_state<time_point>>> borrowed(argument);
  if (const auto state = borrowed->lock()) send_time(*state);
}

template <class Timer>
channel<time_point> make_channel_with_timer(std::int64_t ns, Timer (*make)(std::int64_t, void (*)(void *) noexcept,
                                                                 std::weak_ptr<channel_state<time_point>>)) {
  const auto owner = std::make_shared<channel_with_timer<Timer>>();
  std::shared_ptr<channel_state<time_point>> state(owner, &owner->state);
  owner->timer = make(ns, send_to_channel, state);
  return channel<time_point>(std::move(state));
}

/// Wraps a function object in a std::function, even if it cannot be copied.
template <class Function>
std::function<void()> to_function(Function function) {
  if constexpr (std::is_copy_constructible_v<Function>) {
    return std::function<void()>(std::move(function));
  } else {
    return [shared = std::make_shared<Function>(std::move(function))] { (*shared)(); };
  }
}

}  // namespace detail

/// Sets the handler of exceptions of callbacks. nullptr sets the default handler, which prints a
/// message to stderr. Returns the previous handler.
///
/// Threads: any.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::on_exception.exchange(handler ? handler : detail::print_exception);
}

/// A timer that fires once, unless it is stopped before. It sends the time to its channel, or calls
/// a function (after_func). Destruction disarms it. A moved-from timer is not armed, has the nil
/// channel, and cannot be reset.
///
/// Threads: any, and several threads at once. Move or destroy it only while no other thread uses
/// it.
class timer {
public:
  /// Arms a timer that sends the time after `delay`. Throws punctual::error if the library's thread
  /// cannot be started, or if this process is a fork (punctual_time_is_forked).
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> delay) : timer(delay, channel<time_point>(1), nullptr) {}

  /// Returns the channel to which the timer sends. Returns the nil channel for a timer with a
  /// function.
  channel<time_point> c() const { return state_ ? state_->c : channel<time_point>(); }

  /// Stops the timer. Returns true if this call disarmed it. The channel is empty afterwards, and
  /// stays empty until a reset. If the timer has fired, its function has returned, is running, or
  /// will be called soon; stop() does not wait for it.
  bool stop() {
    if (!state_) return false;
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const bool disarmed = punctual_timer_stop(timer_.get());
    if (disarmed) --state_->due;
    state_->discard_pending_times();
    return disarmed;
  }

  /// Arms the timer again after it has fired or was stopped. The timer's own function may call
  /// this. Drops a time that was not received. Throws std::logic_error if the timer is armed.
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

/// Returns a timer that calls `function()` after `delay` on a thread of the library, so that a slow
/// function delays no other timer. Exceptions of the function go to the exception handler
/// (set_exception_handler). Keep the timer, because its destruction disarms it. A call that runs
/// then continues, so objects that the function uses must outlive the call. If the timer is reset
/// before a call has returned, two calls may overlap.
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
/// copy of the channel, so you need not stop it. Throws the exceptions of timer::timer.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> after(std::chrono::duration<Rep, Period> delay) {
  return detail::make_channel_with_timer(detail::to_ns(delay), detail::make_timer<std::weak_ptr<detail::channel_state<time_point>>>);
}

/// A ticker that sends the time at every period to a channel with room for one value. Ticks that
/// are not received in time are skipped, not queued, and other ticks stay at multiples of the
/// period. Destruction stops the ticker. A moved-from ticker has the nil channel.
///
/// Threads: any, and several threads at once. Move or destroy it only while no other thread uses
/// it.
class ticker {
public:
  /// Starts a ticker. Throws std::invalid_argument if the period is not positive, and the
  /// exceptions of timer::timer.
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> period) : state_(std::make_shared<detail::ticker_state>()) {
    const std::int64_t ns = detail::to_ns(period);
    if (ns == 0) throw std::invalid_argument("ticker: the period must be positive");
    ticker_ = detail::make_ticker(ns, detail::send_tick, state_);
  }

  /// Returns the channel to which the ticker sends.
  channel<time_point> c() const { return state_ ? state_->c : channel<time_point>(); }

  /// Stops the ticker permanently. The channel is empty afterwards, and stays empty.
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

/// Returns a channel that receives the time at every period, like the channel of a ticker, until
/// its last copy is destroyed. If the period is not positive, returns the nil channel, which never
/// receives. Throws the exceptions of timer::timer.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> tick(std::chrono::duration<Rep, Period> period) {
  const std::int64_t ns = detail::to_ns(period);
  if (ns == 0) return {};
  return detail::make_channel_with_timer(ns, detail::make_ticker<std::weak_ptr<detail::channel_state<time_point>>>);
}

}  // namespace punctual::time

#endif
