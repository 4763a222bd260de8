// punctual::channel<T> and select, which pass values between threads.
//
// The copies of a channel share a state, which a mutex guards. A thread that waits for one channel
// with a buffer uses the condition variables of the state. A select, and any operation that waits
// for a channel without a buffer, instead adds a `waiter` to each of its channels; every change of
// a channel wakes its waiters.
//
// On a channel without a buffer, a value moves straight from sender to receiver. Both may be
// selects that wait for several channels, and a select performs exactly one case. So a thread
// *claims* a waiter for one case; a claimed waiter performs no other case. A thread that finds a
// partner claims both waiters at the same time, and moves the value under the channel's lock.
//
// Lock order: channel, waiter; two waiters together. No callback runs while a lock is held.
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

/// A thread that waits until any of several channels changes, and then performs one case.
class waiter {
public:
  /// Claims the waiter for its own case `which`. Returns false if a case was claimed before.
  bool claim(std::size_t which) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (claimed_) return false;
    claimed_ = which;
    return true;
  }

  /// Claims two waiters. Claims neither, and returns false, if one was claimed before. `own` is
  /// null for an operation that does not wait.
  static bool claim_both(waiter *own, std::size_t which, waiter &partner, std::size_t partners) {
    if (!own) return partner.claim(partners);
    const std::scoped_lock lock(own->mutex_, partner.mutex_);
    if (own->claimed_ || partner.claimed_) return false;
    own->claimed_ = which;
    partner.claimed_ = partners;
    return true;
  }

  /// Returns the claimed case.
  std::optional<std::size_t> claimed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return claimed_;
  }


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

  /// Same as wait, but blocks until `deadline` at most. Returns false at the deadline.
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration> &deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool woken = condition_.wait_until(lock, deadline, [this] { return woken_; });
    woken_ = false;
    return woken;
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
  std::optional<std::size_t> claimed_;
};

/// A case of a waiting operation: the waiter, and the number of the case. The waiter is null for an
/// operation that does not wait.
struct place {
  waiter *party = nullptr;
  std::size_t which = 0;

  bool claim() const { return !party || party->claim(which); }
  bool claim_with(const place &partner) const {
    return partner.party != party && waiter::claim_both(party, which, *partner.party, partner.which);
  }
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

  /// Sends a value, as the case `own`, if the channel has room or a receiver waits. Otherwise leaves
  /// `value` unchanged and returns false. Throws if the channel is closed.
  bool try_send(T &value, const place &own = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) {
      if (!own.claim()) return false;
      throw closed_channel();
    }
    for (const partner<std::optional<T>> &receiver : receivers_) {
      if (!own.claim_with(receiver.at)) continue;
      receiver.value->emplace(std::move(value));
      receiver.at.party->wake();
      return true;
    }
    return count_ < items_.size() && own.claim() && put(value);
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
    if (is_unbuffered()) return meet_sender_until(deadline);
    std::unique_lock<std::mutex> lock(mutex_);
    readable_.wait_until(lock, deadline, [this] { return closed_ || count_ > 0; });
    return take();
  }

  /// Receives, as the case `own`. Returns true if it received a value, which it moves to `into`, or
  /// if the channel is closed and drained.
  bool try_recv(std::optional<T> &into, const place &own = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      for (const partner<T> &sender : senders_) {
        if (!own.claim_with(sender.at)) continue;
        into.emplace(std::move(*sender.value));
        sender.at.party->wake();
        return true;
      }
    }
    if ((count_ == 0 && !closed_) || !own.claim()) return false;
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

  bool is_unbuffered() const noexcept { return items_.empty(); }

  void drain() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (take()) {
    }
  }

  /// Adds a waiter with the value that it would send. The value must live until `remove_waiter`.
  void add_sender(const place &at, T &value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiters_.push_back(at.party);
    if (is_unbuffered()) senders_.push_back({at, &value});
  }

  /// Adds a waiter with the place for the value that it would receive.
  void add_receiver(const place &at, std::optional<T> &into) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiters_.push_back(at.party);
    if (is_unbuffered()) receivers_.push_back({at, &into});
  }

  /// Removes a case of a waiter. Afterwards no other thread uses the case's value.
  void remove_waiter(const place &at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto waiting = std::find(waiters_.begin(), waiters_.end(), at.party);
    if (waiting != waiters_.end()) waiters_.erase(waiting);
    remove_from(senders_, at);
    remove_from(receivers_, at);
  }

private:
  /// A waiting case on the channel without a buffer.
  template <class Value>
  struct partner {
    place at;
    Value *value;
  };

  template <class Clock, class Duration>
  std::optional<T> meet_sender_until(const std::chrono::time_point<Clock, Duration> &deadline) {
    waiter waiting;
    const place own{&waiting, 0};
    std::optional<T> value;
    add_receiver(own, value);
    while (!try_recv(value, own) && !waiting.claimed()) {
      // At the deadline, the thread claims its own waiter, so that no sender can claim it any more.
      if (!waiting.wait_until(deadline) && waiting.claim(0)) break;
    }
    remove_waiter(own);
    return value;
  }

  // The functions below require the mutex to be held.

  template <class Partners>
  static void remove_from(Partners &partners, const place &at) {
    const auto is_own = [&at](const auto &each) { return each.at.party == at.party && each.at.which == at.which; };
    partners.erase(std::remove_if(partners.begin(), partners.end(), is_own), partners.end());
  }

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
  /// Waiting cases, first come, first served. Empty if the channel has a buffer.
  std::vector<partner<T>> senders_;
  std::vector<partner<std::optional<T>>> receivers_;
};

/// Blocks forever, like an operation on the nil channel.
[[noreturn]] inline void block_forever() {
  for (waiter never_woken;;) never_woken.wait();
}

}  // namespace detail

/// A channel that buffers up to `capacity` values, first in, first out. With a capacity of 0 a sender
/// waits for its receiver. Copies refer to the same channel. A default-constructed channel is nil,
/// which is never ready.
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

  /// Creates an empty channel.
  explicit channel(std::size_t capacity) : state_(std::make_shared<detail::channel_state<T>>(capacity)) {}

  /// Sends a value. Blocks while the channel is full, or without a buffer until a receiver takes the
  /// value. Throws closed_channel if the channel is closed.
  void send(T value) const;

  /// Sends a value if the channel has room now, or a waiting receiver. Returns whether it sent the
  /// value. Throws closed_channel if the channel is closed.
  bool try_send(T value) const { return state_ && state_->try_send(value); }

  /// Receives a value. Blocks while the channel is empty. Returns nullopt if the channel is closed
  /// and drained.
  std::optional<T> recv() const;

  /// Receives a value if the channel has one now, or a waiting sender. Returns nullopt otherwise.
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
  virtual bool attempt(const place &own) = 0;
  /// Calls the callback, after the case was performed.
  virtual void run() = 0;
  virtual void add_waiter(const place &own) = 0;
  virtual void remove_waiter(const place &own) = 0;
};

template <class T, class Then>
class recv_case final : public select_case {
public:
  recv_case(channel<T> from, Then then) : from_(std::move(from)), then_(std::move(then)) {}
  bool attempt(const place &own) override { return from_.state() && from_.state()->try_recv(value_, own); }
  void run() override {
    if constexpr (std::is_invocable_v<Then &, std::optional<T>>) {
      then_(std::move(value_));
    } else {
      static_assert(std::is_invocable_v<Then &>, "the callback of a receive takes a std::optional<T> or no argument");
      then_();
    }
  }
  void add_waiter(const place &own) override {
    if (from_.state()) from_.state()->add_receiver(own, value_);
  }
  void remove_waiter(const place &own) override {
    if (from_.state()) from_.state()->remove_waiter(own);
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
  bool attempt(const place &own) override { return to_.state() && to_.state()->try_send(value_, own); }
  void run() override { then_(); }
  void add_waiter(const place &own) override {
    if (to_.state()) to_.state()->add_sender(own, value_);
  }
  void remove_waiter(const place &own) override {
    if (to_.state()) to_.state()->remove_waiter(own);
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
    for (std::size_t which = 0; which < N; ++which) cases_[which]->add_waiter({&waiter_, which});
  }
  waiter_registration(const waiter_registration &) = delete;
  waiter_registration &operator=(const waiter_registration &) = delete;
  ~waiter_registration() {
    for (std::size_t which = 0; which < N; ++which) cases_[which]->remove_waiter({&waiter_, which});
  }

private:
  select_case *(&cases_)[N];
  waiter &waiter_;
};

/// Tries each case once, starting with a random case, so that no case starves. `own` is null before
/// the select waits.
template <std::size_t N>
std::optional<std::size_t> attempt_any(select_case *(&cases)[N], waiter *own = nullptr) {
  thread_local std::uint32_t chance = 0x9e3779b9;
  chance = chance * 1664525 + 1013904223;
  const std::size_t start = (chance >> 16) % N;
  for (std::size_t n = 0; n < N; ++n) {
    const std::size_t which = (start + n) % N;
    if (cases[which]->attempt({own, which})) return which;
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
      while (!(which = detail::attempt_any(all, &waiting)) && !(which = waiting.claimed())) waiting.wait();
    }  // Ending the registration locks the channels: a partner has moved the value of its case.
    all[*which]->run();
    return *which;
  }
}

template <class T>
void channel<T>::send(T value) const {
  if (!state_) detail::block_forever();
  if (state_->is_unbuffered()) {
    select(on_send(*this, std::move(value)));
  } else {
    state_->send(value);
  }
}

template <class T>
std::optional<T> channel<T>::recv() const {
  if (!state_) detail::block_forever();
  if (!state_->is_unbuffered()) return state_->recv();
  std::optional<T> received;
  select(on_recv(*this, [&received](std::optional<T> value) { received = std::move(value); }));
  return received;
}

}  // namespace punctual

#endif
