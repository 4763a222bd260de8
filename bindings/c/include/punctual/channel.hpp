// punctual::channel<T> and select: values from thread to thread.
//
// A channel's state is shared by its copies and guarded by one mutex. Who waits for one channel waits on its
// condition variables; who selects over several registers a `waiter` with each, which every change of theirs
// wakes. Locks are taken in this order: a channel's, then a waiter's. No callback runs under either.
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

/// Thrown by send on a closed channel.
class closed_channel : public std::logic_error {
public:
  closed_channel() : std::logic_error("channel::send: the channel is closed") {}
};

namespace detail {

/// Somebody who waits for any of several channels.
class waiter {
public:
  void wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    condition_.notify_one();
  }

  /// Waits until something has changed since the last wait.
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

/// What the copies of a channel share.
template <class T>
class channel_state {
public:
  explicit channel_state(std::size_t capacity) : items_(capacity) {}

  /// Puts a value in, if there is room and the channel is open; else leaves it alone.
  bool try_put(T &value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return put(value);
  }

  /// The same; throws if the channel is closed.
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

  /// Waits no longer than until `deadline`.
  template <class Clock, class Duration>
  std::optional<T> recv_until(const std::chrono::time_point<Clock, Duration> &deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    readable_.wait_until(lock, deadline, [this] { return closed_ || count_ > 0; });
    return take();
  }

  /// Whether there was a value, which goes to `into`, or the channel is closed and drained.
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

  void watch(waiter *who) {
    const std::lock_guard<std::mutex> lock(mutex_);
    watching_.push_back(who);
  }

  void unwatch(waiter *who) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = std::find(watching_.begin(), watching_.end(), who);
    if (at != watching_.end()) watching_.erase(at);
  }

private:
  // What follows is called with the mutex held.

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
    for (waiter *who : watching_) who->wake();
  }

  mutable std::mutex mutex_;
  std::condition_variable readable_;
  std::condition_variable writable_;
  /// A ring: `count_` of them, from `first_` on, hold a value.
  std::vector<std::optional<T>> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::vector<waiter *> watching_;
};

/// Waits for ever: what a nil channel does.
[[noreturn]] inline void block_forever() {
  for (waiter nobody;;) nobody.wait();
}

}  // namespace detail

/// A channel that holds up to `capacity` values, first in, first out. A copy is the same channel. A default one
/// is nil: never ready.
///
/// Threads: any may use the same channel, or copies of it, at the same time.
template <class T>
class channel {
public:
  /// What it carries.
  using value_type = T;

  /// Receives value after value, as a range-based for does.
  class iterator;

  /// The nil channel: send and recv wait for ever, try_send and try_recv say no.
  channel() noexcept = default;

  /// An empty channel. Throws std::invalid_argument if `capacity` is 0.
  explicit channel(std::size_t capacity)
      : state_(capacity > 0 ? std::make_shared<detail::channel_state<T>>(capacity)
                            : throw std::invalid_argument("channel: the capacity must be at least 1")) {}

  /// Sends, waiting while the channel is full. Throws closed_channel if it is closed.
  void send(T value) const {
    if (!state_) detail::block_forever();
    state_->send(value);
  }

  /// Sends if there is room now. Throws closed_channel if it is closed.
  bool try_send(T value) const { return state_ && state_->try_send(value); }

  /// Receives, waiting while the channel is empty; nothing if it is closed and drained.
  std::optional<T> recv() const {
    if (!state_) detail::block_forever();
    return state_->recv();
  }

  /// Receives if there is a value now.
  std::optional<T> try_recv() const {
    std::optional<T> value;
    if (state_) state_->try_recv(value);
    return value;
  }

  /// Receives, waiting no longer than `timeout` of punctual::time's clock, virtual or not; nothing if it has
  /// passed, or if the channel is closed and drained. Throws punctual::error in a callback of a virtual clock, which
  /// would wait for itself. Needs punctual/time.hpp.
  template <class Rep, class Period>
  std::optional<T> recv_for(std::chrono::duration<Rep, Period> timeout) const;

  /// `for (T value : c)` receives until the channel is closed and drained. Each value goes to one receiver, be it
  /// such a loop or another.
  iterator begin() const { return iterator(*this); }
  iterator end() const { return iterator(); }

  /// No more can be sent; what was sent can still be received. Closing twice is allowed; closing the nil
  /// channel does nothing.
  void close() const {
    if (state_) state_->close();
  }

  /// Whether it was closed.
  bool closed() const { return state_ && state_->closed(); }

  /// Values in it now.
  std::size_t size() const { return state_ ? state_->size() : 0; }
  /// Whether it is empty now.
  bool empty() const { return size() == 0; }
  /// Values it can hold.
  std::size_t capacity() const noexcept { return state_ ? state_->capacity() : 0; }

  /// Whether it is the nil channel.
  bool is_nil() const noexcept { return !state_; }

  /// Whether both are the same channel.
  friend bool operator==(const channel &a, const channel &b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(const channel &a, const channel &b) noexcept { return !(a == b); }

  /// For these headers: the channel of a state.
  explicit channel(std::shared_ptr<detail::channel_state<T>> state) noexcept : state_(std::move(state)) {}

  /// For these headers: what its copies share; empty for the nil channel.
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

  /// The end: there is nothing more.
  iterator() = default;
  explicit iterator(channel from) : from_(std::move(from)), value_(from_.recv()) {}

  /// The value received, to be moved from.
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

/// What a case does that was given nothing to do.
struct nothing {
  void operator()() const noexcept {}
};

/// One of the things that select waits for.
class select_case {
public:
  virtual ~select_case() = default;
  /// Does it, if it can be done now.
  virtual bool attempt() = 0;
  /// Calls back, after it was done.
  virtual void run() = 0;
  virtual void watch(waiter *who) = 0;
  virtual void unwatch(waiter *who) = 0;
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
      static_assert(std::is_invocable_v<Then &>, "what is done with a value takes a std::optional<T>, or nothing");
      then_();
    }
  }
  void watch(waiter *who) override {
    if (from_.state()) from_.state()->watch(who);
  }
  void unwatch(waiter *who) override {
    if (from_.state()) from_.state()->unwatch(who);
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
  void watch(waiter *who) override {
    if (to_.state()) to_.state()->watch(who);
  }
  void unwatch(waiter *who) override {
    if (to_.state()) to_.state()->unwatch(who);
  }

private:
  channel<T> to_;
  T value_;
  Then then_;
};

/// Registers a waiter with every case, for as long as it lives.
template <std::size_t N>
class watch_all {
public:
  watch_all(select_case *(&cases)[N], waiter &who) : cases_(cases), who_(who) {
    for (select_case *each : cases_) each->watch(&who_);
  }
  watch_all(const watch_all &) = delete;
  watch_all &operator=(const watch_all &) = delete;
  ~watch_all() {
    for (select_case *each : cases_) each->unwatch(&who_);
  }

private:
  select_case *(&cases_)[N];
  waiter &who_;
};

/// Tries each case once, from one that chance picks, so that none starves.
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

/// What can be given to select.
template <class... Cases>
using if_cases = std::enable_if_t<(std::is_base_of_v<select_case, std::remove_reference_t<Cases>> && ...), int>;

}  // namespace detail

/// For select: receive from `from`, then call `then(std::optional<T>)`, which gets nothing if the channel is
/// closed and drained, or `then()`.
template <class T, class Then = detail::nothing>
detail::recv_case<T, Then> on_recv(channel<T> from, Then then = {}) {
  return {std::move(from), std::move(then)};
}

/// For select: send `value` to `to`, then call `then()`. select throws closed_channel if the channel is closed.
/// `value` is moved from when it was sent.
template <class T, class Then = detail::nothing>
detail::send_case<T, Then> on_send(channel<T> to, typename channel<T>::value_type value, Then then = {}) {
  return {std::move(to), std::move(value), std::move(then)};
}

/// Does one of the cases that can be done now, and calls back; tells which, or nothing if none can.
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

/// Waits until one of the cases can be done, does it, and calls back; tells which: 0 is the first. Among
/// several, chance picks. With none, or with nil channels only, it waits for ever.
template <class... Cases, detail::if_cases<Cases...> = 0>
std::size_t select(Cases &&...cases) {
  if constexpr (sizeof...(Cases) == 0) {
    detail::block_forever();
  } else {
    detail::select_case *all[] = {&cases...};
    std::optional<std::size_t> which = detail::attempt_any(all);
    if (!which) {
      detail::waiter who;
      const detail::watch_all<sizeof...(Cases)> watching(all, who);
      while (!(which = detail::attempt_any(all))) who.wait();
    }
    all[*which]->run();
    return *which;
  }
}

}  // namespace punctual

#endif
