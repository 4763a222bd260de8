// punctual::time: timers and tickers, by channel and by callback.
//
// A timer's state is shared with the library, which calls `fire` for each arming that was not stopped, on a
// thread of its own, maybe a little after the timer was found fired. `due` counts those calls to come,
// `refused` those of them that a stop or a reset has made void, so that a channel gets nothing from before.
// Locks: a timer's, then its channel's.
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

// What is written before an argument is handed to the library is seen by the calls, and what they write by what
// destroys it. The library's locks see to that, but ThreadSanitizer does not know them: it is told.
#ifdef PUNCTUAL_THREAD_SANITIZER
inline void hand_over(void *argument) noexcept { __tsan_release(argument); }
inline void take_over(void *argument) noexcept { __tsan_acquire(argument); }
#else
inline void hand_over(void *) noexcept {}
inline void take_over(void *) noexcept {}
#endif

/// What the library is given: a new T, which comes back to `destroy`.
template <class T>
void *give(T what) {
  void *argument = new T(std::move(what));
  hand_over(argument);
  return argument;
}

/// During a call: what was given.
template <class T>
class given {
public:
  explicit given(void *argument) noexcept : argument_(argument) { take_over(argument_); }
  given(const given &) = delete;
  given &operator=(const given &) = delete;
  ~given() { hand_over(argument_); }

  const T &operator*() const noexcept { return *static_cast<const T *>(argument_); }
  const T *operator->() const noexcept { return &**this; }

private:
  void *argument_;
};

template <class T>
void destroy(void *argument) noexcept {
  take_over(argument);
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

/// Why there is no timer.
[[noreturn]] inline void refuse() { throw error(punctual_time_is_forked() ? PUNCTUAL_FORKED : PUNCTUAL_PANICKED); }

/// A timer that calls `call` with what it is given.
template <class T>
timer_handle make_timer(std::int64_t ns, void (*call)(void *) noexcept, T what) {
  timer_handle timer(punctual_after_func(ns, call, give(std::move(what)), destroy<T>));
  if (!timer) refuse();
  return timer;
}

template <class T>
ticker_handle make_ticker(std::int64_t ns, void (*call)(void *) noexcept, T what) {
  ticker_handle ticker(punctual_ticker_new(ns, call, give(std::move(what)), destroy<T>));
  if (!ticker) refuse();
  return ticker;
}

/// Sends the time, if there is room.
inline void send_time(channel_state<time_point> &to) {
  time_point time = now();
  to.try_put(time);
}

/// What a timer does, shared with the library.
struct timer_deed {
  std::mutex mutex;
  /// Where the time goes; nil if there is a function to be called instead.
  channel<time_point> c;
  std::function<void()> function;
  /// Calls of `fire` to come.
  std::size_t due = 0;
  /// So many of them have been made void.
  std::size_t refused = 0;

  /// With the mutex held: nothing of what has fired so far is in the channel, or comes.
  void forget_the_past() {
    if (c.is_nil()) return;
    refused = due;
    c.state()->drain();
  }
};

/// Calls back; what it throws is reported.
inline void call(const std::function<void()> &function) noexcept {
  try {
    function();
  } catch (...) {
    on_exception.load()(std::current_exception());
  }
}

inline void fire(void *argument) noexcept {
  // A copy: the function may destroy its timer.
  const given<std::shared_ptr<timer_deed>> here(argument);
  const std::shared_ptr<timer_deed> deed = *here;
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

/// What a ticker does, shared with the library.
struct ticker_deed {
  std::mutex mutex;
  channel<time_point> c{1};
  bool stopped = false;
};

inline void send_tick(void *argument) noexcept {
  const given<std::shared_ptr<ticker_deed>> here(argument);
  ticker_deed &deed = **here;
  const std::lock_guard<std::mutex> lock(deed.mutex);
  if (!deed.stopped) send_time(*deed.c.state());
}

/// A channel of after() or tick() and what feeds it, which goes when nobody has the channel any more.
template <class Feeder>
struct fed_channel {
  channel_state<time_point> state{1};
  Feeder feeder;
};

inline void feed(void *argument) noexcept {
  const given<std::weak_ptr<channel_state<time_point>>> here(argument);
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

/// A std::function of anything that can be called, be it copyable or not.
template <class Function>
std::function<void()> to_function(Function function) {
  if constexpr (std::is_copy_constructible_v<Function>) {
    return std::function<void()>(std::move(function));
  } else {
    return [shared = std::make_shared<Function>(std::move(function))] { (*shared)(); };
  }
}

}  // namespace detail

/// Has exceptions that callbacks throw handled by `handler`; nullptr: printed to stderr, as from the start.
/// Gives the one before.
///
/// Threads: any.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::on_exception.exchange(handler ? handler : detail::print_exception);
}

/// Fires once, unless it is stopped before: sends the time into its channel, or calls a function (after_func).
/// Destroying it disarms it. One that was moved from is not armed, has the nil channel, and cannot be reset.
///
/// Threads: any, also several at once; moving and destroying it, as usual, by one that knows that no other uses
/// it.
class timer {
public:
  /// A timer that sends in so long. Throws punctual::error if the library's thread cannot be started, or this
  /// process is a fork of the one that has it.
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> delay) : timer(delay, channel<time_point>(1), nullptr) {}

  /// Where it sends; of a timer that calls a function the nil channel.
  channel<time_point> c() const { return deed_ ? deed_->c : channel<time_point>(); }

  /// Stops it: true if it was armed, and this disarmed it. The channel is empty afterwards, and stays so until
  /// a reset. A function that was not disarmed has been called, is being called, or will be in a moment: this does
  /// not wait for it.
  bool stop() {
    if (!deed_) return false;
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    const bool disarmed = punctual_timer_stop(timer_.get());
    if (disarmed) --deed_->due;
    deed_->forget_the_past();
    return disarmed;
  }

  /// Arms it again after it has fired or was stopped; its own function may do that. A time that it has sent and
  /// nobody received is gone. Throws std::logic_error if it is armed.
  template <class Rep, class Period>
  void reset(std::chrono::duration<Rep, Period> delay) {
    if (!deed_) throw error(PUNCTUAL_NULL);
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    const punctual_status status = punctual_timer_reset(timer_.get(), detail::to_ns(delay));
    if (status == PUNCTUAL_ARMED) throw std::logic_error("timer::reset: the timer is armed; must be stopped or expired");
    check(status);
    deed_->forget_the_past();
    ++deed_->due;
  }

private:
  template <class Rep, class Period, class Function>
  friend timer after_func(std::chrono::duration<Rep, Period> delay, Function function);

  template <class Rep, class Period>
  timer(std::chrono::duration<Rep, Period> delay, channel<time_point> c, std::function<void()> function)
      : deed_(std::make_shared<detail::timer_deed>()) {
    deed_->c = std::move(c);
    deed_->function = std::move(function);
    deed_->due = 1;
    timer_ = detail::make_timer(detail::to_ns(delay), detail::fire, deed_);
  }

  std::shared_ptr<detail::timer_deed> deed_;
  detail::timer_handle timer_;
};

/// Calls `function()` in so long, on a thread of the library: one that takes long delays no other timer. What
/// it throws is reported (set_exception_handler) and harms nothing. Its timer disarms it when it is destroyed,
/// so keep that; a call that has begun then goes on, so what it uses must live on, too. If the timer is reset before a
/// call has returned, two may overlap.
///
/// Throws std::invalid_argument if `function` is empty (a null pointer, an empty std::function), and as
/// timer::timer does.
///
/// Threads: any.
template <class Rep, class Period, class Function>
[[nodiscard]] timer after_func(std::chrono::duration<Rep, Period> delay, Function function) {
  std::function<void()> call = detail::to_function(std::move(function));
  if (!call) throw std::invalid_argument("after_func: there is no function");
  return timer(delay, channel<time_point>(), std::move(call));
}

/// A channel that gets the time in so long. When nobody has it any more its timer is gone, so it need not be stopped.
/// Throws as timer::timer does.
///
/// Threads: any.
template <class Rep, class Period>
channel<time_point> after(std::chrono::duration<Rep, Period> delay) {
  return detail::feed_channel(detail::to_ns(delay), detail::make_timer<std::weak_ptr<detail::channel_state<time_point>>>);
}

/// Sends the time at every period into a channel with room for one: ticks that nobody has received in time are
/// skipped, not queued, and the others stay at multiples of the period. Destroying it stops it. One that was moved from
/// has the nil channel.
///
/// Threads: any, also several at once; moving and destroying it, as usual, by one that knows that no other uses
/// it.
class ticker {
public:
  /// Throws std::invalid_argument if the period is not positive, and as timer::timer does.
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> period) : deed_(std::make_shared<detail::ticker_deed>()) {
    const std::int64_t ns = detail::to_ns(period);
    if (ns == 0) throw std::invalid_argument("ticker: the period must be positive");
    ticker_ = detail::make_ticker(ns, detail::send_tick, deed_);
  }

  /// Where it sends.
  channel<time_point> c() const { return deed_ ? deed_->c : channel<time_point>(); }

  /// Stops it for good. The channel is empty afterwards, and stays so.
  void stop() {
    if (!deed_) return;
    punctual_ticker_stop(ticker_.get());
    const std::lock_guard<std::mutex> lock(deed_->mutex);
    deed_->stopped = true;
    deed_->c.state()->drain();
  }

private:
  std::shared_ptr<detail::ticker_deed> deed_;
  detail::ticker_handle ticker_;
};

/// A channel that gets the time at every period, as a ticker's does, for as long as somebody has it. The nil
/// channel if the period is not positive: it never ticks. Throws as timer::timer does.
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
