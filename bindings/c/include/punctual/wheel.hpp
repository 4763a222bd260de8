// punctual::wheel<T>: the timing wheel of punctual.h with values of any movable type.
//
// Small trivial values are stored in the engine's own records, as its void *. Others lie in slots
// of this class, selected by the key's index, in segments that never move.
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

/// Identifies a timer of one wheel<T>. Once the timer has fired or was removed, its handle is
/// refused forever. A default-constructed one identifies none. Pass it only to its own wheel:
/// another may have a timer with the same handle.
template <class T>
class wheel_handle {
public:
  constexpr wheel_handle() noexcept = default;
  /// Returns true unless default-constructed.
  constexpr explicit operator bool() const noexcept { return bits_ != PUNCTUAL_NO_KEY; }
  /// Returns the key of punctual.h.
  constexpr punctual_key bits() const noexcept { return bits_; }
  friend constexpr bool operator==(wheel_handle a, wheel_handle b) noexcept { return a.bits_ == b.bits_; }
  friend constexpr bool operator!=(wheel_handle a, wheel_handle b) noexcept { return a.bits_ != b.bits_; }
  friend constexpr bool operator<(wheel_handle a, wheel_handle b) noexcept { return a.bits_ < b.bits_; }

private:
  friend class wheel<T>;
  constexpr explicit wheel_handle(punctual_key bits) noexcept : bits_(bits) {}
  punctual_key bits_ = PUNCTUAL_NO_KEY;
};

/// A hierarchical timing wheel that owns its values: timers are armed, cancelled and re-armed in
/// O(1) and popped in the exact order of deadlines, equal ones in the order in which they were
/// armed. A deadline is a number of ticks of any length; the wheel reads no clock.
///
/// T must be movable without throwing. A timer takes 40 bytes, and sizeof(T) more unless T is
/// trivially copyable and fits into a pointer. T may hold a wheel<T>::handle.
///
/// A value's destructor may use the wheel: its timer has already been removed.
///
/// Threads: as for a std::vector. Calls of const members may overlap with each other, other calls
/// with none.
template <class T>
class wheel {
public:
  /// Identifies a timer.
  using handle = wheel_handle<T>;

  /// A due timer that was removed from its wheel.
  struct expired {
    /// Its former handle.
    wheel_handle<T> handle;
    /// Its deadline.
    std::uint64_t deadline;
    T value;
  };

  /// Creates an empty wheel.
  wheel() : queue_(punctual_wheel_new()) {}
  /// Moves the timers, whose handles stay valid; `other` becomes empty and remains usable.
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
  /// Throws punctual::error for more than 2^32 - 1 timers, and std::bad_alloc.
  handle insert(std::uint64_t deadline, T carried) { return emplace(deadline, std::move(carried)); }

  /// Arms a timer whose value is constructed from `arguments`. O(1). Also throws the exceptions of
  /// the constructor; then nothing is armed.
  template <class... Arguments>
  handle emplace(std::uint64_t deadline, Arguments &&...arguments) {
    if constexpr (in_place) {
      T carried(std::forward<Arguments>(arguments)...);
      return armed(punctual_wheel_insert(owner(), deadline, pack(carried)));
    } else {
      const handle made = armed(punctual_wheel_insert(owner(), deadline, nullptr));
      try {
        ::new (grow_to(made)) T(std::forward<Arguments>(arguments)...);
      } catch (...) {
        punctual_wheel_remove(queue_.get(), made.bits_, nullptr);
        throw;
      }
      return made;
    }
  }

  /// Cancels a timer and returns its value; nullopt if the handle is stale. O(1).
  std::optional<T> remove(handle timer) noexcept {
    void *packed = nullptr;
    if (punctual_wheel_remove(queue_.get(), timer.bits_, &packed) != PUNCTUAL_OK) return std::nullopt;
    std::optional<T> carried(take(timer, packed));
    release();
    return carried;
  }

  /// Cancels a timer and destroys its value. Returns false if the handle is stale. O(1).
  bool erase(handle timer) noexcept { return remove(timer).has_value(); }

  /// Re-arms a timer, earlier or later; its handle stays valid. Returns false if the handle is
  /// stale. O(1).
  bool reset(handle timer, std::uint64_t deadline) noexcept {
    return punctual_wheel_reset(queue_.get(), timer.bits_, deadline) == PUNCTUAL_OK;
  }

  /// Returns true if a timer is armed. O(1).
  bool contains(handle timer) const noexcept { return punctual_wheel_get(queue_.get(), timer.bits_, nullptr) == PUNCTUAL_OK; }

  /// Returns a timer's value, for reading and changing until the wheel is next changed; nullptr if
  /// the handle is stale. O(1).
  T *get(handle timer) noexcept {
    if constexpr (in_place) {
      return reinterpret_cast<T *>(punctual_wheel_at(queue_.get(), timer.bits_));
    } else {
      return contains(timer) ? slot(timer) : nullptr;
    }
  }

  /// Same as above for a const wheel and values that are not stored in the engine; value() copies
  /// any value. O(1).
  template <class U = T, std::enable_if_t<!wheel<U>::in_place, int> = 0>
  const U *get(handle timer) const noexcept {
    return contains(timer) ? slot(timer) : nullptr;
  }

  /// Returns a copy of a timer's value; nullopt if the handle is stale. O(1).
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

  /// Returns the deadline of a timer; nullopt if the handle is stale. O(1).
  std::optional<std::uint64_t> deadline(handle timer) const noexcept {
    std::uint64_t tick = 0;
    if (punctual_wheel_deadline(queue_.get(), timer.bits_, &tick) != PUNCTUAL_OK) return std::nullopt;
    return tick;
  }

  /// Removes and returns the first timer due at `now`; nullopt if none is due. O(1) amortised.
  std::optional<expired> pop_due(std::uint64_t now) {
    punctual_wheel_timer timer;
    const punctual_status status = punctual_wheel_pop_due(queue_.get(), now, &timer);
    if (status != PUNCTUAL_OK) {
      refuse_defect(status);
      return std::nullopt;
    }
    return std::optional<expired>(unwrap(timer));
  }

  /// Passes every timer due at `now` to `fire(expired &&)`, in order, with bounded work: each
  /// timer, and each entry that the wheel moves meanwhile, takes 1 from `budget`. Returns true if
  /// nothing more is due, false if the budget was exhausted first. `fire` may arm and cancel timers
  /// of this wheel. Its exceptions propagate, after its timer was removed. O(budget).
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

  /// Returns the earliest deadline; nullopt if no timer is armed. O(1) amortised.
  std::optional<std::uint64_t> next_deadline() {
    std::uint64_t tick = 0;
    const punctual_status status = punctual_wheel_next_deadline(queue_.get(), &tick);
    refuse_defect(status);
    return status == PUNCTUAL_OK ? std::optional<std::uint64_t>(tick) : std::nullopt;
  }

  /// Returns a lower bound of all deadlines, to sleep until; nullopt if no timer is armed. O(1).
  std::optional<std::uint64_t> next_wakeup() const noexcept {
    std::uint64_t tick = 0;
    return punctual_wheel_next_wakeup(queue_.get(), &tick) == PUNCTUAL_OK ? std::optional<std::uint64_t>(tick) : std::nullopt;
  }

  /// Returns the number of armed timers. O(1).
  std::size_t size() const noexcept { return punctual_wheel_len(queue_.get()); }
  /// Returns true if no timer is armed. O(1).
  bool empty() const noexcept { return size() == 0; }

  /// Passes every timer to `see(handle, deadline, value &)`, in no particular order. `see` may
  /// change the value, and arm and cancel timers of this wheel: it does not see timers armed
  /// meanwhile, nor timers cancelled before their turn. O(n), and memory for a list of the timers.
  /// Throws std::bad_alloc, and the exceptions of `see`.
  template <class See>
  void for_each(See &&see) {
    for (const punctual_wheel_timer &timer : list()) {
      const handle of(timer.key);
      if (T *carried = get(of)) see(of, *deadline(of), *carried);
    }
  }

  /// Same as above with `see(handle, deadline, const T &)`, which cannot change the wheel.
  template <class See>
  void for_each(See &&see) const {
    for (const punctual_wheel_timer &timer : list()) {
      const handle of(timer.key);
      if constexpr (in_place) {
        const T carried = unpack(timer.value);
        see(of, timer.deadline, carried);
      } else {
        see(of, timer.deadline, static_cast<const T &>(*slot(of)));
      }
    }
  }

  /// Removes all timers, due or not, and passes each to `fire(expired &&)`, in order, including
  /// timers that `fire` arms meanwhile. Its exceptions propagate, after its timer was removed.
  /// O(n).
  template <class Fire>
  void drain(Fire &&fire) {
    const rewinder rewind{queue_.get()};
    while (std::optional<expired> timer = pop_due(UINT64_MAX)) fire(std::move(*timer));
  }

  /// Cancels all timers and destroys their values; their handles become stale. O(n).
  void clear() {
    destroy_values();
    if (queue_) check(punctual_wheel_clear(queue_.get()));
    release();
  }

  /// Releases the memory that armed timers do not need. O(n).
  void shrink_to_fit() {
    if (queue_) check(punctual_wheel_shrink(queue_.get()));
    release();
  }

  /// Returns the size in bytes, without memory that the values own. O(1), or nearly so.
  std::size_t memory() const noexcept {
    return sizeof(*this) + punctual_wheel_memory(queue_.get()) + slots_.capacity() * sizeof(slots_[0]) +
           slots_.size() * sizeof(segment);
  }

private:
  template <class>
  friend class wheel;

  static constexpr bool in_place = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(void *);
  static constexpr std::size_t segment_slots = 256;
  /// Memory kept when the wheel becomes empty: as much as the engine keeps.
  static constexpr std::size_t kept_segments = 4;

  struct freer {
    void operator()(punctual_wheel *queue) const noexcept { punctual_wheel_free(queue); }
  };
  struct segment {
    alignas(T) unsigned char bytes[segment_slots * sizeof(T)];
  };
  /// Resets the wheel's time when it is empty, after a query for all deadlines up to the last tick.
  struct rewinder {
    punctual_wheel *queue;
    ~rewinder() {
      if (punctual_wheel_len(queue) == 0) punctual_wheel_pop_due(queue, 0, nullptr);
    }
  };

  /// Returns the engine's wheel; creates a new one after a move.
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

  static void *pack(const T &carried) noexcept {
    void *packed = nullptr;
    std::memcpy(&packed, std::addressof(carried), sizeof(T));
    return packed;
  }

  static T unpack(void *packed) noexcept {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &packed, sizeof(T));
    return std::move(*std::launder(reinterpret_cast<T *>(bytes)));
  }

  /// Returns the slot of a timer's value.
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

  /// Moves out the value of a timer that was just removed from the engine.
  T take(handle timer, void *packed) noexcept {
    if constexpr (in_place) {
      return unpack(packed);
    } else {
      T *carried = slot(timer);
      T moved(std::move(*carried));
      carried->~T();
      return moved;
    }
  }

  expired unwrap(const punctual_wheel_timer &timer) noexcept {
    const handle of(timer.key);
    expired due{of, timer.deadline, take(of, timer.value)};
    release();
    return due;
  }

  /// Releases slots if the last of many timers was removed.
  void release() noexcept {
    if (slots_.size() > kept_segments && empty()) slots_.resize(kept_segments);
  }

  /// Destroys values one by one, each moved out of its slot first: destructors may use the wheel.
  void destroy_values() noexcept {
    // Here, because T may be incomplete at the class definition and contain a handle of its own.
    static_assert(std::is_nothrow_move_constructible_v<T>, "a timer's value is moved out when it fires, which must not throw");
    static_assert(!std::is_reference_v<T> && !std::is_const_v<T>, "a wheel owns its values");
    if constexpr (!std::is_trivially_destructible_v<T>) {
      const rewinder rewind{queue_.get()};
      punctual_wheel_timer timer;
      while (punctual_wheel_pop_due(queue_.get(), UINT64_MAX, &timer) == PUNCTUAL_OK) {
        [[maybe_unused]] const expired gone = unwrap(timer);
      }
    }
  }

  /// Returns all timers, as the engine has them.
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
