// punctual::channel<T> and select, which pass values between threads.
//
// The copies of a channel share a state, which a mutex guards. A thread that waits for one channel
// uses the condition variables of the state. A select over several channels adds a `waiter` to each
// of them; every change of a channel wakes its waiters. Lock order: channel, waiter. No callback
// runs while a lock is held.
#ifndef PUNCTUAL_CHANNEL_HPP
#define PUNCTUAL_CHANNEL_HPP

#include "language.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace punctual {

/// The exception of a send on a closed channel.
class closed_channel : public std::logic_error {
public:
  closed_channel() : std::logic_error("channel::send: the channel is closed") {}
};

namespace detail {

/// A thread that waits until any of several channels changes.
class waiter {
public:
  void wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    condition_.notify_one();
  }

  /// Blocks until a channel has changed since the last wait.
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }

private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

/// The state that the copies of a channel share.
template <class T>
class channel_state {
public:
  explicit channel_state(std::size_t capacity) : items_(capacity) {}

  /// Adds a value if the channel has room and is open. Otherwise leaves `value` unchanged and
  /// returns false.
  bool try_put(T &value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return put(value);
  }

  /// Same as try_put, but throws if the channel is closed.
  bool try_send(T &value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) throw closed_channel();
    return put(value);
  }

  void send(T &value) {
    std::unique_lock<std::mutex> lock(mutex_);
    writable_.wait(lock, [this] { return closed_ || count_ < items_.size(); });
    if (closed_) throw closed_channel();
    put(value);
  }

  std::optional<T> recv() {
    std::unique_lock<std::mutex> lock(mutex_);
    readable_.wait(lock, [this] { return closed_ || count_ > 0; });
    return take();
  }

  /// Receives a value. Blocks until `deadline` at most.
  template <class Clock, class Duration>
  std::optional<T> recv_until(const std::chrono::time_point<Clock, Duration> &deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    readable_.wait_until(lock, deadline, [this] { return closed_ || count_ > 0; });
    return take();
  }

  /// Returns true if it received a value, which it moves to `into`, or if the channel is closed and
  /// drained.
  bool try_recv(std::optional<T> &into) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == 0 && !closed_) return false;
    into = take();
    return true;
  }

  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    readable_.notify_all();
    writable_.notify_all();
    wake();
  }

  bool closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }

  std::size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

  std::size_t capacity() const noexcept { return items_.size(); }

  void drain() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (take()) {
    }
  }

  void add_waiter(waiter *waiting) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiters_.push_back(waiting);
  }

  void remove_waiter(waiter *waiting) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = std::find(waiters_.begin(), waiters_.end(), waiting);
    if (at != waiters_.end()) waiters_.erase(at);
  }

private:
  // The functions below require the mutex to be held.

  bool put(T &value) {
    if (closed_ || count_ == items_.size()) return false;
    items_[(first_ + count_) % items_.size()].emplace(std::move(value));
    ++count_;
    readable_.notify_one();
    wake();
    return true;
  }

  std::optional<T> take() {
    if (count_ == 0) return std::nullopt;
    std::optional<T> value(std::move(items_[first_]));
    items_[first_].reset();
    first_ = (first_ + 1) % items_.size();
    --count_;
    writable_.notify_one();
    wake();
    return value;
  }

  void wake() {
    for (waiter *waiting : waiters_) waiting->wake();
  }

  mutable std::mutex mutex_;
  std::condition_variable readable_;
  std::condition_variable writable_;
  /// A ring buffer: the `count_` elements from `first_` contain values.
  std::vector<std::optional<T>> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::vector<waiter *> waiters_;
};

/// Blocks forever, like an operation on the nil channel.
[[noreturn]] inline void block_forever() {
  for (waiter never_woken;;) never_woken.wait();
}

}  // namespace detail

/// A channel that buffers up to `capacity` values, first in, first out. Copies refer to the same
/// channel. A default-constructed channel is nil, which is never ready.
///
/// Threads: several threads may use the same channel, or copies of it, at the same time.
template <class T>
class channel {
public:
  /// The type of the values.
  using value_type = T;

  /// An iterator that receives one value after another, for range-based for.
  class iterator;

  /// The nil channel: send and recv block forever, try_send and try_recv fail.
  channel() noexcept = default;

  /// Creates an empty channel. Throws std::invalid_argument if `capacity` is 0.
  explicit channel(std::size_t capacity)
      : state_(capacity > 0 ? std::make_shared<detail::channel_state<T>>(capacity)
                            : throw std::invalid_argument("channel: the capacity must be at least 1")) {}

  /// Sends a value. Blocks while the channel is full. Throws closed_channel if the channel is
  /// closed.
  void send(T value) const {
    if (!state_) detail::block_forever();
    state_->send(value);
  }

  /// Sends a value if the channel has room now. Returns whether it sent the value. Throws
  /// closed_channel if the channel is closed.
  bool try_send(T value) const { return state_ && state_->try_send(value); }

  /// Receives a value. Blocks while the channel is empty. Returns nullopt if the channel is closed
  /// and drained.
  std::optional<T> recv() const {
    if (!state_) detail::block_forever();
    return state_->recv();
  }

  /// Receives a value if the channel has one now. Returns nullopt otherwise.
  std::optional<T> try_recv() const {
    std::optional<T> value;
    if (state_) state_->try_recv(value);
    return value;
  }

  /// Receives a value. Blocks for `timeout` at most, on the clock in effect on this thread
  /// (punctual::time::clock). Returns nullopt after the timeout, or if the channel is closed and
  /// drained. Throws punctual::error in a callback of a virtual clock, where it would wait for its
  /// own thread. Needs punctual/time.hpp.
  template <class Rep, class Period>
  std::optional<T> recv_for(std::chrono::duration<Rep, Period> timeout) const;

  /// `for (T value : c)` receives until the channel is closed and drained. Each value goes to
  /// exactly one receiver.
  iterator begin() const { return iterator(*this); }
  iterator end() const { return iterator(); }

  /// Closes the channel. No more values can be sent; buffered values can be received. Closing a
  /// channel twice is allowed. Closing the nil channel does nothing.
  void close() const {
    if (state_) state_->close();
  }

  /// Returns true if the channel is closed.
  bool closed() const { return state_ && state_->closed(); }

  /// Returns the number of buffered values.
  std::size_t size() const { return state_ ? state_->size() : 0; }
  /// Returns true if no value is buffered.
  bool empty() const { return size() == 0; }
  /// Returns the maximum number of buffered values.
  std::size_t capacity() const noexcept { return state_ ? state_->capacity() : 0; }

  /// Returns true for the nil channel.
  bool is_nil() const noexcept { return !state_; }

  /// Returns true if both refer to the same channel.
  friend bool operator==(const channel &a, const channel &b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(const channel &a, const channel &b) noexcept { return !(a == b); }

  /// Only for these headers: creates a channel with a given state.
  explicit channel(std::shared_ptr<detail::channel_state<T>> state) noexcept : state_(std::move(state)) {}

  /// Only for these headers: returns the shared state, or null for the nil channel.
  const std::shared_ptr<detail::channel_state<T>> &state() const noexcept { return state_; }

private:
  std::shared_ptr<detail::channel_state<T>> state_;
};

template <class T>
class channel<T>::iterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = T *;
  using reference = T &&;

  /// Creates the end iterator.
  iterator() = default;
  explicit iterator(channel from) : from_(std::move(from)), value_(from_.recv()) {}

  /// Returns the received value, from which the caller may move.
  T &&operator*() const noexcept { return std::move(*value_); }
  T *operator->() const noexcept { return std::addressof(*value_); }
  iterator &operator++() {
    value_ = from_.recv();
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const iterator &a, const iterator &b) noexcept { return a.value_.has_value() == b.value_.has_value(); }
  friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

private:
  channel from_;
  mutable std::optional<T> value_;
};

namespace detail {

/// The default callback of a case, which does nothing.
struct no_callback {
  void operator()() const noexcept {}
};

/// A case of a select.
class select_case {
public:
  virtual ~select_case() = default;
  /// Performs the case if it is ready. Returns whether it performed it.
  virtual bool attempt() = 0;
  /// Calls the callback, after the case was performed.
  virtual void run() = 0;
  virtual void add_waiter(waiter *waiting) = 0;
  virtual void remove_waiter(waiter *waiting) = 0;
};

template <class T, class Then>
class recv_case final : public select_case {
public:
  recv_case(channel<T> from, Then then) : from_(std::move(from)), then_(std::move(then)) {}
  bool attempt() override { return from_.state() && from_.state()->try_recv(value_); }
  void run() override {
    if constexpr (std::is_invocable_v<Then &, std::optional<T>>) {
      then_(std::move(value_));
    } else {
      static_assert(std::is_invocable_v<Then &>, "the callback of a receive takes a std::optional<T> or no argument");
      then_();
    }
  }
  void add_waiter(waiter *waiting) override {
    if (from_.state()) from_.state()->add_waiter(waiting);
  }
  void remove_waiter(waiter *waiting) override {
    if (from_.state()) from_.state()->remove_waiter(waiting);
  }

private:
  channel<T> from_;
  Then then_;
  std::optional<T> value_;
};

template <class T, class Then>
class send_case final : public select_case {
public:
  send_case(channel<T> to, T value, Then then) : to_(std::move(to)), value_(std::move(value)), then_(std::move(then)) {}
  bool attempt() override { return to_.state() && to_.state()->try_send(value_); }
  void run() override { then_(); }
  void add_waiter(waiter *waiting) override {
    if (to_.state()) to_.state()->add_waiter(waiting);
  }
  void remove_waiter(waiter *waiting) override {
    if (to_.state()) to_.state()->remove_waiter(waiting);
  }

private:
  channel<T> to_;
  T value_;
  Then then_;
};

/// Adds a waiter to the channels of all cases, and removes it when destroyed.
template <std::size_t N>
class waiter_registration {
public:
  waiter_registration(select_case *(&cases)[N], waiter &waiting) : cases_(cases), waiter_(waiting) {
    for (select_case *each : cases_) each->add_waiter(&waiter_);
  }
  waiter_registration(const waiter_registration &) = delete;
  waiter_registration &operator=(const waiter_registration &) = delete;
  ~waiter_registration() {
    for (select_case *each : cases_) each->remove_waiter(&waiter_);
  }

private:
  select_case *(&cases_)[N];
  waiter &waiter_;
};

/// Tries each case once, starting with a random case, so that no case starves.
template <std::size_t N>
std::optional<std::size_t> attempt_any(select_case *(&cases)[N]) {
  thread_local std::uint32_t chance = 0x9e3779b9;
  chance = chance * 1664525 + 1013904223;
  const std::size_t start = (chance >> 16) % N;
  for (std::size_t n = 0; n < N; ++n) {
    const std::size_t which = (start + n) % N;
    if (cases[which]->attempt()) return which;
  }
  return std::nullopt;
}

/// Enables an overload only if all arguments are cases.
template <class... Cases>
using if_cases = std::enable_if_t<(std::is_base_of_v<select_case, std::remove_reference_t<Cases>> && ...), int>;

}  // namespace detail

/// Returns a case for select that receives from `from`. It then calls `then(std::optional<T>)`,
/// with nullopt if the channel is closed and drained, or `then()`.
template <class T, class Then = detail::no_callback>
detail::recv_case<T, Then> on_recv(channel<T> from, Then then = {}) {
  return {std::move(from), std::move(then)};
}

/// Returns a case for select that sends `value` to `to`, and then calls `then()`. select throws
/// closed_channel if the channel is closed.
template <class T, class Then = detail::no_callback>
detail::send_case<T, Then> on_send(channel<T> to, typename channel<T>::value_type value, Then then = {}) {
  return {std::move(to), std::move(value), std::move(then)};
}

/// Performs one of the ready cases and calls its callback. Returns the index of the case, starting
/// at 0, or nullopt if no case is ready.
template <class... Cases, detail::if_cases<Cases...> = 0>
std::optional<std::size_t> try_select(Cases &&...cases) {
  if constexpr (sizeof...(Cases) == 0) {
    return std::nullopt;
  } else {
    detail::select_case *all[] = {&cases...};
    const std::optional<std::size_t> which = detail::attempt_any(all);
    if (which) all[*which]->run();
    return which;
  }
}

/// Blocks until a case is ready, performs it and calls its callback. Returns the index of the case,
/// from 0. Chooses at random if several cases are ready. Blocks forever without cases, or if all
/// channels are nil.
template <class... Cases, detail::if_cases<Cases...> = 0>
std::size_t select(Cases &&...cases) {
  if constexpr (sizeof...(Cases) == 0) {
    detail::block_forever();
  } else {
    detail::select_case *all[] = {&cases...};
    std::optional<std::size_t> which = detail::attempt_any(all);
    if (!which) {
      detail::waiter waiting;
      const detail::waiter_registration<sizeof...(Cases)> registration(all, waiting);
      while (!(which = detail::attempt_any(all))) waiting.wait();
    }
    all[*which]->run();
    return *which;
  }
}

}  // namespace punctual

#endif
