// punctual::wheel<T>: the timing wheel of punctual.h, with values of any movable type.
//
// The C library stores a small trivially copyable value in its own record, as the void * value.
// This class stores other values in slots. The index of the timer's key selects the slot. Slots are
// in segments that never move.
#ifndef PUNCTUAL_WHEEL_HPP
#define PUNCTUAL_WHEEL_HPP

#include "error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace punctual {

template <class T>
class wheel;

/// Identifies a timer of one wheel<T>. When the timer has fired or was removed, its handle becomes
/// stale and stays stale. A default-constructed handle identifies no timer. Pass a handle only to
/// its own wheel: another wheel may have a timer with the same handle.
template <class T>
class wheel_handle {
public:
  constexpr wheel_handle() noexcept = default;
  /// Returns true unless the handle is default-constructed.
  constexpr explicit operator bool() const noexcept { return bits_ != PUNCTUAL_NO_KEY; }
  /// Returns the timer's key in the C library.
  constexpr punctual_key bits() const noexcept { return bits_; }
  friend constexpr bool operator==(wheel_handle a, wheel_handle b) noexcept { return a.bits_ == b.bits_; }
  friend constexpr bool operator!=(wheel_handle a, wheel_handle b) noexcept { return a.bits_ != b.bits_; }
  friend constexpr bool operator<(wheel_handle a, wheel_handle b) noexcept { return a.bits_ < b.bits_; }

private:
  friend class wheel<T>;
  constexpr explicit wheel_handle(punctual_key bits) noexcept : bits_(bits) {}
  punctual_key bits_ = PUNCTUAL_NO_KEY;
};

/// A hierarchical timing wheel that owns the values of its timers. Timers are armed, cancelled and
/// re-armed in O(1). They are popped in the exact order of their deadlines, and timers with equal
/// deadlines in the order in which they were armed. A deadline is a number of ticks of any length.
/// The wheel reads no clock.
///
/// The move constructor of T must not throw. A timer takes 44 bytes, and sizeof(T) more unless T is
/// trivially copyable and not larger than a pointer. T may contain a wheel<T>::handle.
///
/// The destructor of a value may use the wheel, because the value's timer is removed before.
///
/// Threads: as for a std::vector. Calls of const members may overlap with each other. No other call
/// may overlap with any call for the same wheel.
template <class T>
class wheel {
public:
  /// Identifies a timer.
  using handle = wheel_handle<T>;

  /// A due timer that was removed from its wheel.
  struct expired {
    /// Former handle of the timer, which is now stale.
    wheel_handle<T> handle;
    /// Deadline of the timer.
    std::uint64_t deadline;
    T value;
  };

  /// Creates an empty wheel.
  wheel() : queue_(punctual_wheel_new()) {}
  /// Moves the timers. Their handles stay valid for this wheel; `other` becomes empty and can be
  /// used again.
  wheel(wheel &&other) noexcept : queue_(std::move(other.queue_)), slots_(std::exchange(other.slots_, {})) {}
  wheel &operator=(wheel &&other) noexcept {
    if (this != &other) {
      destroy_values();
      queue_ = std::move(other.queue_);
      slots_ = std::exchange(other.slots_, {});
    }
    return *this;
  }
  /// Destroys the values of armed timers.
  ~wheel() { destroy_values(); }

  /// Arms a timer. O(1).
  ///
  /// Throws punctual::error if the wheel would hold more than 2^32 - 2 timers, and std::bad_alloc.
  handle insert(std::uint64_t deadline, T value) { return emplace(deadline, std::move(value)); }

  /// Arms a timer whose value is constructed from `arguments`. Throws like insert, and the
  /// exceptions of the constructor; then no timer is armed. O(1).
  template <class... Arguments>
  handle emplace(std::uint64_t deadline, Arguments &&...arguments) {
    if constexpr (in_place) {
      T value(std::forward<Arguments>(arguments)...);
      return armed(punctual_wheel_insert(owner(), deadline, pack(value)));
    } else {
      const handle timer = armed(punctual_wheel_insert(owner(), deadline, nullptr));
      try {
        ::new (grow_to(timer)) T(std::forward<Arguments>(arguments)...);
      } catch (...) {
        punctual_wheel_remove(queue_.get(), timer.bits_, nullptr);
        throw;
      }
      return timer;
    }
  }

  /// Cancels a timer and returns its value, or nullopt if the handle is stale. O(1).
  std::optional<T> remove(handle timer) noexcept {
    void *packed = nullptr;
    if (punctual_wheel_remove(queue_.get(), timer.bits_, &packed) != PUNCTUAL_OK) return std::nullopt;
    std::optional<T> value(take(timer, packed));
    free_slots_if_empty();
    return value;
  }

  /// Cancels a timer and destroys its value. Returns false if the handle is stale. O(1).
  bool erase(handle timer) noexcept { return remove(timer).has_value(); }

  /// Re-arms a timer to an earlier or later deadline. Its handle stays valid. Returns false if the
  /// handle is stale. O(1).
  bool reset(handle timer, std::uint64_t deadline) noexcept {
    return punctual_wheel_reset(queue_.get(), timer.bits_, deadline) == PUNCTUAL_OK;
  }

  /// Returns true if the timer of a handle is armed. O(1).
  bool contains(handle timer) const noexcept { return punctual_wheel_get(queue_.get(), timer.bits_, nullptr) == PUNCTUAL_OK; }

  /// Returns a pointer to a timer's value, which is valid until the next change of the wheel, or
  /// nullptr if the handle is stale. O(1).
  T *get(handle timer) noexcept {
    if constexpr (in_place) {
      return reinterpret_cast<T *>(punctual_wheel_at(queue_.get(), timer.bits_));
    } else {
      return contains(timer) ? slot(timer) : nullptr;
    }
  }

  /// Same as above for a const wheel, if this class stores the values. value() returns a copy of
  /// any value. O(1).
  template <class U = T, std::enable_if_t<!wheel<U>::in_place, int> = 0>
  const U *get(handle timer) const noexcept {
    return contains(timer) ? slot(timer) : nullptr;
  }

  /// Returns a copy of a timer's value, or nullopt if the handle is stale. O(1).
  template <class U = T, std::enable_if_t<std::is_copy_constructible_v<U>, int> = 0>
  std::optional<U> value(handle timer) const {
    void *packed = nullptr;
    if (punctual_wheel_get(queue_.get(), timer.bits_, &packed) != PUNCTUAL_OK) return std::nullopt;
    if constexpr (in_place) {
      return unpack(packed);
    } else {
      return *slot(timer);
    }
  }

  /// Returns the deadline of a timer, or nullopt if the handle is stale. O(1).
  std::optional<std::uint64_t> deadline(handle timer) const noexcept {
    std::uint64_t tick = 0;
    if (punctual_wheel_deadline(queue_.get(), timer.bits_, &tick) != PUNCTUAL_OK) return std::nullopt;
    return tick;
  }

  /// Removes and returns the first timer due at `now`, or nullopt if no timer is due. O(1)
  /// amortised.
  std::optional<expired> pop_due(std::uint64_t now) {
    punctual_wheel_timer timer;
    const punctual_status status = punctual_wheel_pop_due(queue_.get(), now, &timer);
    if (status != PUNCTUAL_OK) {
      refuse_defect(status);
      return std::nullopt;
    }
    return std::optional<expired>(unwrap(timer));
  }

  /// Removes every timer due at `now` and passes it to `fire(expired &&)`, in order, with bounded
  /// work: each timer, and each entry that the wheel moves meanwhile, takes 1 from `budget`.
  /// Returns true if no more timers are due, and false if the budget is used up before. `fire` may
  /// arm and cancel timers of this wheel. An exception of `fire` propagates; its timer was removed.
  /// O(budget), except for a rare call that packs the entries of a wheel with little memory in use:
  /// O(n).
  template <class Fire>
  bool poll(std::uint64_t now, std::size_t budget, Fire &&fire) {
    for (;;) {
      punctual_wheel_timer timer;
      const punctual_status status = punctual_wheel_poll(queue_.get(), now, &budget, &timer);
      if (status != PUNCTUAL_OK) {
        refuse_defect(status);
        return status != PUNCTUAL_BUSY;
      }
      fire(unwrap(timer));
    }
  }

  /// Returns the earliest deadline, or nullopt if no timer is armed. O(1) amortised.
  std::optional<std::uint64_t> next_deadline() {
    std::uint64_t tick = 0;
    const punctual_status status = punctual_wheel_next_deadline(queue_.get(), &tick);
    refuse_defect(status);
    return status == PUNCTUAL_OK ? std::optional<std::uint64_t>(tick) : std::nullopt;
  }

  /// Returns a lower bound of all deadlines, until which an event loop can sleep, or nullopt if no
  /// timer is armed. O(1).
  std::optional<std::uint64_t> next_wakeup() const noexcept {
    std::uint64_t tick = 0;
    return punctual_wheel_next_wakeup(queue_.get(), &tick) == PUNCTUAL_OK ? std::optional<std::uint64_t>(tick) : std::nullopt;
  }

  /// Returns the number of armed timers. O(1).
  std::size_t size() const noexcept { return punctual_wheel_len(queue_.get()); }
  /// Returns true if no timer is armed. O(1).
  bool empty() const noexcept { return size() == 0; }

  /// Passes every timer to `visit(handle, deadline, value &)`, in no particular order. `visit` may
  /// change the value, and arm and cancel timers of this wheel. Timers that are armed meanwhile, or
  /// cancelled before their turn, are not visited. Throws std::bad_alloc, and the exceptions of
  /// `visit`. O(n), and memory for a list of the timers.
  template <class Visit>
  void for_each(Visit &&visit) {
    for (const punctual_wheel_timer &listed : list()) {
      const handle timer(listed.key);
      if (T *value = get(timer)) visit(timer, *deadline(timer), *value);
    }
  }

  /// Same as above with `visit(handle, deadline, const T &)`, for a const wheel.
  template <class Visit>
  void for_each(Visit &&visit) const {
    for (const punctual_wheel_timer &listed : list()) {
      const handle timer(listed.key);
      if constexpr (in_place) {
        const T value = unpack(listed.value);
        visit(timer, listed.deadline, value);
      } else {
        visit(timer, listed.deadline, static_cast<const T &>(*slot(timer)));
      }
    }
  }

  /// Removes all timers, even if they are not due, and passes each to `fire(expired &&)`, in order,
  /// including timers that `fire` arms meanwhile. An exception of `fire` propagates; its timer was
  /// removed. O(n).
  template <class Fire>
  void drain(Fire &&fire) {
    const rewinder rewind{queue_.get()};
    while (std::optional<expired> timer = pop_due(UINT64_MAX)) fire(std::move(*timer));
  }

  /// Cancels all timers and destroys their values. Their handles become stale. O(n).
  void clear() {
    destroy_values();
    if (queue_) check(punctual_wheel_clear(queue_.get()));
    free_slots_if_empty();
  }

  /// Frees memory that armed timers do not need, except gaps between their records and room for
  /// about a thousand timers. O(n).
  void shrink_to_fit() {
    if (queue_) check(punctual_wheel_shrink(queue_.get()));
    free_slots_if_empty();
  }

  /// Returns the size of the wheel and its timers in bytes, without memory that the values own.
  /// O(1).
  std::size_t memory() const noexcept {
    return sizeof(*this) + punctual_wheel_memory(queue_.get()) + slots_.capacity() * sizeof(slots_[0]) +
           slots_.size() * sizeof(segment);
  }

private:
  template <class>
  friend class wheel;

  static constexpr bool in_place = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(void *);
  static constexpr std::size_t segment_slots = 256;
  /// Number of segments that an empty wheel keeps: as many slots as the C library keeps records.
  static constexpr std::size_t kept_segments = 4;

  struct freer {
    void operator()(punctual_wheel *queue) const noexcept { punctual_wheel_free(queue); }
  };
  struct segment {
    alignas(T) unsigned char bytes[segment_slots * sizeof(T)];
  };
  /// When destroyed, sets the time of an empty wheel back to 0, after all timers were popped at the
  /// last tick.
  struct rewinder {
    punctual_wheel *queue;
    ~rewinder() {
      if (punctual_wheel_len(queue) == 0) punctual_wheel_pop_due(queue, 0, nullptr);
    }
  };

  /// Returns the C library's wheel. Creates a new wheel after a move.
  punctual_wheel *owner() {
    if (!queue_) queue_.reset(punctual_wheel_new());
    return queue_.get();
  }

  static handle armed(punctual_key bits) {
    if (bits == PUNCTUAL_NO_KEY) throw error(PUNCTUAL_PANICKED);
    return handle(bits);
  }

  static void refuse_defect(punctual_status status) {
    if (status == PUNCTUAL_PANICKED) throw error(status);
  }

  static void *pack(const T &value) noexcept {
    void *packed = nullptr;
    std::memcpy(&packed, std::addressof(value), sizeof(T));
    return packed;
  }

  static T unpack(void *packed) noexcept {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &packed, sizeof(T));
    return std::move(*std::launder(reinterpret_cast<T *>(bytes)));
  }

  /// Returns the value in a timer's slot.
  T *slot(handle timer) const noexcept {
    const std::size_t index = PUNCTUAL_KEY_INDEX(timer.bits_);
    unsigned char *bytes = slots_[index / segment_slots]->bytes + index % segment_slots * sizeof(T);
    return std::launder(reinterpret_cast<T *>(bytes));
  }

  void *grow_to(handle timer) {
    const std::size_t index = PUNCTUAL_KEY_INDEX(timer.bits_);
    while (slots_.size() <= index / segment_slots) slots_.emplace_back(new segment);
    return slots_[index / segment_slots]->bytes + index % segment_slots * sizeof(T);
  }

  /// Moves out the value of a timer that was just removed from the C library's wheel.
  T take(handle timer, void *packed) noexcept {
    if constexpr (in_place) {
      return unpack(packed);
    } else {
      T *value = slot(timer);
      T moved(std::move(*value));
      value->~T();
      return moved;
    }
  }

  expired unwrap(const punctual_wheel_timer &popped) noexcept {
    const handle timer(popped.key);
    expired due{timer, popped.deadline, take(timer, popped.value)};
    free_slots_if_empty();
    return due;
  }

  /// Frees slots if the last of many timers was removed.
  void free_slots_if_empty() noexcept {
    if (slots_.size() > kept_segments && empty()) slots_.resize(kept_segments);
  }

  /// Destroys the values one by one. Moves each value out of its slot first, because its destructor
  /// may use the wheel.
  void destroy_values() noexcept {
    // The checks are here because T may be incomplete at the definition of the class, if T contains
    // a wheel<T>::handle.
    static_assert(std::is_nothrow_move_constructible_v<T>, "a timer's value is moved out when it fires, which must not throw");
    static_assert(!std::is_reference_v<T> && !std::is_const_v<T>, "a wheel owns its values");
    if constexpr (!std::is_trivially_destructible_v<T>) {
      const rewinder rewind{queue_.get()};
      punctual_wheel_timer timer;
      while (punctual_wheel_pop_due(queue_.get(), UINT64_MAX, &timer) == PUNCTUAL_OK) {
        [[maybe_unused]] const expired destroyed = unwrap(timer);
      }
    }
  }

  /// Returns all timers of the C library's wheel.
  std::vector<punctual_wheel_timer> list() const {
    std::vector<punctual_wheel_timer> timers(size());
    timers.resize(punctual_wheel_list(queue_.get(), timers.data(), timers.size()));
    return timers;
  }

  std::unique_ptr<punctual_wheel, freer> queue_;
  std::vector<std::unique_ptr<segment>> slots_;
};

}  // namespace punctual

/// Hash support for unordered containers.
template <class T>
struct std::hash<punctual::wheel_handle<T>> {
  std::size_t operator()(punctual::wheel_handle<T> timer) const noexcept { return std::hash<punctual_key>()(timer.bits()); }
};

#endif
