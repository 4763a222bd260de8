// Tests of punctual::wheel<T>.

#include <punctual/wheel.hpp>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using punctual::wheel;

/// Counts live objects, to check that each is destroyed once.
struct counted {
  explicit counted(int n) : number(n) { ++living; }
  counted(counted &&other) noexcept : number(other.number) { ++living; }
  counted(const counted &) = delete;
  ~counted() { --living; }
  int number;
  static inline int living = 0;
};

struct throwing {
  explicit throwing(bool refuse) {
    if (refuse) throw std::runtime_error("on purpose");
  }
  std::string name = "grumpy";
};

static_assert(!std::is_copy_constructible_v<wheel<int>>);
static_assert(std::is_nothrow_move_constructible_v<wheel<std::string>>);
static_assert(!std::is_same_v<wheel<int>::handle, wheel<long>::handle>, "wheels of different types have different handle types");
static_assert(!std::is_convertible_v<punctual_key, wheel<int>::handle>);

TEST(Wheel, FiresInOrderAndReturnsMoveOnlyValues) {
  wheel<std::unique_ptr<std::string>> timeouts;
  const auto slow = timeouts.insert(1000, std::make_unique<std::string>("slow"));
  timeouts.insert(5000, std::make_unique<std::string>("idle"));
  timeouts.emplace(500, new std::string("soon"));
  EXPECT_EQ(timeouts.size(), 3u);
  EXPECT_EQ(timeouts.next_deadline(), 500u);
  EXPECT_LE(timeouts.next_wakeup().value(), 500u);
  EXPECT_EQ(**timeouts.get(slow), "slow");

  auto due = timeouts.pop_due(700);
  ASSERT_TRUE(due);
  EXPECT_EQ(*due->value, "soon");
  EXPECT_EQ(due->deadline, 500u);
  EXPECT_FALSE(timeouts.pop_due(700));

  auto back = timeouts.remove(slow);
  ASSERT_TRUE(back);
  EXPECT_EQ(**back, "slow");
  EXPECT_FALSE(timeouts.remove(slow));
  EXPECT_EQ(timeouts.get(slow), nullptr);
  EXPECT_EQ(*timeouts.pop_due(5000)->value, "idle");
  EXPECT_TRUE(timeouts.empty());
  EXPECT_EQ(timeouts.next_deadline(), std::nullopt);
  EXPECT_EQ(timeouts.next_wakeup(), std::nullopt);
}

TEST(Wheel, SmallValuesLiveInTheEngine) {
  wheel<int> numbers;
  const auto key = numbers.insert(10, 7);
  EXPECT_EQ(*numbers.get(key), 7);
  *numbers.get(key) = 8;
  EXPECT_EQ(numbers.value(key), 8);
  EXPECT_TRUE(numbers.contains(key));
  EXPECT_EQ(numbers.deadline(key), 10u);
  EXPECT_TRUE(numbers.reset(key, 5));
  EXPECT_EQ(numbers.pop_due(5)->value, 8);
  EXPECT_FALSE(numbers.reset(key, 5));
  EXPECT_FALSE(numbers.contains(key));
  EXPECT_EQ(numbers.value(key), std::nullopt);
  EXPECT_EQ(numbers.get(key), nullptr);
  EXPECT_EQ(numbers.deadline(key), std::nullopt);

  struct pair {
    char a;
    short b;
  };
  wheel<pair> pairs;
  pairs.insert(1, pair{'x', -3});
  const auto due = pairs.pop_due(1);
  EXPECT_EQ(due->value.a, 'x');
  EXPECT_EQ(due->value.b, -3);
}

TEST(Wheel, HandlesIdentifyOneTimer) {
  wheel<std::string> names;
  const wheel<std::string>::handle none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(names.erase(none));
  const auto first = names.insert(1, "first");
  EXPECT_TRUE(first);
  EXPECT_TRUE(names.erase(first));
  const auto second = names.insert(1, "second");
  EXPECT_NE(first, second);
  EXPECT_FALSE(names.erase(first));
  EXPECT_EQ(names.value(second), "second");
  const std::unordered_set<wheel<std::string>::handle> known{first, second, second};
  EXPECT_EQ(known.size(), 2u);
  EXPECT_EQ(known.count(none), 0u);
  const auto &const_names = names;
  EXPECT_EQ(*const_names.get(second), "second");
}

TEST(Wheel, DestroysEveryValueOnce) {
  {
    wheel<counted> many;
    std::vector<wheel<counted>::handle> handles;
    for (int n = 0; n < 3000; ++n) handles.push_back(many.emplace(static_cast<std::uint64_t>(n % 500), n));
    EXPECT_EQ(counted::living, 3000);
    for (int n = 0; n < 3000; n += 3) EXPECT_TRUE(many.erase(handles[static_cast<std::size_t>(n)]));
    EXPECT_EQ(counted::living, 2000);
    while (many.pop_due(100)) {
    }
    EXPECT_EQ(counted::living, static_cast<int>(many.size()));
    wheel<counted> moved = std::move(many);
    EXPECT_EQ(counted::living, static_cast<int>(moved.size()));
    many.emplace(1, 1);  // a moved-from wheel is empty and can be used again
    EXPECT_EQ(many.size(), 1u);
    moved.clear();
    EXPECT_EQ(counted::living, 1);
    moved.emplace(7, 7);
    many = std::move(moved);
    EXPECT_EQ(counted::living, 1);
    EXPECT_EQ(many.pop_due(7)->value.number, 7);
    many.emplace(8, 8);
  }
  EXPECT_EQ(counted::living, 0);
}

TEST(Wheel, AThrowingConstructorArmsNothing) {
  wheel<throwing> wheel;
  EXPECT_THROW(wheel.emplace(1, true), std::runtime_error);
  EXPECT_TRUE(wheel.empty());
  wheel.emplace(1, false);
  EXPECT_EQ(wheel.pop_due(1)->value.name, "grumpy");
}

TEST(Wheel, AcceptsTrivialMoveOnlyTypes) {
  struct token {
    explicit token(int n) : number(n) {}
    token(token &&) = default;
    token &operator=(token &&) = default;
    int number;
  };
  static_assert(std::is_trivially_copyable_v<token> && !std::is_copy_constructible_v<token>);
  wheel<token> tokens;
  const auto first = tokens.emplace(1, 5);
  tokens.emplace(2, 6);
  EXPECT_EQ(tokens.get(first)->number, 5);
  EXPECT_EQ(tokens.remove(first)->number, 5);
  EXPECT_EQ(tokens.pop_due(2)->value.number, 6);
}

TEST(Wheel, ForEachAndDrainVisitEveryTimer) {
  wheel<std::string> names;
  wheel<int> numbers;
  for (int n = 0; n < 100; ++n) {
    names.insert(static_cast<std::uint64_t>(1000 - n), std::to_string(n));
    numbers.insert(static_cast<std::uint64_t>(1000 - n), n);
  }
  int sum = 0;
  std::as_const(numbers).for_each([&](auto, std::uint64_t deadline, const int &n) { sum += n + static_cast<int>(deadline); });
  EXPECT_EQ(sum, 100 * 1000);
  std::as_const(names).for_each([&](auto, std::uint64_t, const std::string &n) { sum -= std::stoi(n); });
  EXPECT_EQ(sum, 100 * 1000 - 99 * 50);

  // The callback may change the wheel: the timers that its first call cancels or arms are not visited.
  int seen = 0;
  names.for_each([&](auto timer, std::uint64_t deadline, std::string &name) {
    ++seen;
    EXPECT_EQ(std::to_string(1000 - deadline), name);
    name += "!";
    EXPECT_TRUE(names.reset(timer, deadline + 1));
    names.for_each([&](auto other, std::uint64_t, std::string &) {
      if (other != timer) names.erase(other);
    });
    names.insert(1, "more");
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(names.size(), 2u);

  std::vector<int> drained;
  numbers.drain([&](auto &&due) { drained.push_back(due.value); });
  EXPECT_TRUE(numbers.empty());
  for (int n = 0; n < 100; ++n) EXPECT_EQ(drained[static_cast<std::size_t>(n)], 99 - n);
  names.drain([](auto &&due) { EXPECT_TRUE(due.value == "more" || due.value.back() == '!'); });
  EXPECT_TRUE(names.empty());

  // A drained wheel is usable like a new one.
  numbers.insert(7, 7);
  EXPECT_FALSE(numbers.pop_due(6));
  EXPECT_EQ(numbers.pop_due(7)->value, 7);
}

/// A session whose destructor disarms another session's timer and arms a new one.
struct session {
  session(wheel<session> &of, wheel<session>::handle &neighbour_of) : sessions(&of), neighbour(&neighbour_of) { ++counted::living; }
  session(session &&other) noexcept : sessions(std::exchange(other.sessions, nullptr)), neighbour(other.neighbour) {
    ++counted::living;
  }
  ~session() {
    --counted::living;
    if (sessions == nullptr) return;
    if (*neighbour) sessions->erase(std::exchange(*neighbour, {}));
    if (rearms_left-- > 0) sessions->emplace(1, *sessions, *neighbour);
  }
  wheel<session> *sessions;
  wheel<session>::handle *neighbour;
  static inline int rearms_left = 0;
};

TEST(Wheel, DestructorsMayUseTheWheel) {
  for (const bool cleared : {true, false}) {
    constexpr std::size_t many = 3000;
    std::vector<wheel<session>::handle> handles(many + 1);
    session::rearms_left = 500;
    {
      wheel<session> sessions;
      for (std::size_t n = 0; n < many; ++n) handles[n] = sessions.emplace(n, sessions, handles[(n * 7 + 1) % many]);
      EXPECT_EQ(counted::living, static_cast<int>(many));
      if (cleared) {
        sessions.clear();
        EXPECT_TRUE(sessions.empty());
      }
    }
    EXPECT_EQ(counted::living, 0);
  }
}

TEST(Wheel, PollsWithABudget) {
  wheel<std::string> wheel;
  for (int n = 0; n < 1000; ++n) wheel.insert(7, "timer " + std::to_string(n));
  int fired = 0, turns = 0;
  const auto fire = [&](auto &&due) {
    EXPECT_EQ(due.value, "timer " + std::to_string(fired));
    ++fired;
    if (fired == 1) wheel.insert(8, "later");  // a callback may arm
  };
  while (!wheel.poll(7, 64, fire)) ++turns;
  EXPECT_EQ(fired, 1000);
  EXPECT_GE(turns, 1000 / 64);
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_THROW(wheel.poll(8, 64, [](auto &&) { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_TRUE(wheel.empty());
}

TEST(Wheel, ReleasesMemory) {
  wheel<std::string> wheel;
  for (std::uint64_t n = 0; n < 30000; ++n) wheel.insert(n, "x");
  const std::size_t full = wheel.memory();
  EXPECT_GT(full, 30000 * sizeof(std::string));
  while (wheel.pop_due(30000)) {
  }
  wheel.shrink_to_fit();
  EXPECT_LT(wheel.memory(), full / 10);
}

/// Compares a wheel, with values that are larger than a pointer, with a std::multimap.
TEST(Wheel, AgreesWithAModel) {
  wheel<std::string> wheel;
  using handle = punctual::wheel<std::string>::handle;
  std::multimap<std::uint64_t, handle> model;  // equal deadlines stay in the order in which they were inserted
  std::mt19937_64 chance(20240501);
  std::uint64_t now = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t deadline = now + (chance() >> (34 + chance() % 30));
    switch (chance() % 4) {
      case 0: {
        const handle timer = wheel.insert(deadline, std::to_string(deadline));
        model.emplace(deadline, timer);
        break;
      }
      case 1:
      case 2: {
        if (model.empty()) break;
        auto at = model.lower_bound(deadline);
        if (at == model.end()) at = model.begin();
        const handle timer = at->second;
        EXPECT_EQ(*wheel.get(timer), std::to_string(at->first));
        model.erase(at);
        if (chance() % 2 == 0) {
          EXPECT_TRUE(wheel.erase(timer));
        } else {
          EXPECT_TRUE(wheel.reset(timer, deadline));
          *wheel.get(timer) = std::to_string(deadline);
          model.emplace(deadline, timer);
        }
        break;
      }
      default: {
        now += chance() % 1000;
        for (auto due = wheel.pop_due(now); due; due = wheel.pop_due(now)) {
          ASSERT_FALSE(model.empty());
          ASSERT_EQ(due->handle, model.begin()->second);
          ASSERT_EQ(due->value, std::to_string(due->deadline));
          model.erase(model.begin());
        }
        ASSERT_TRUE(model.empty() || model.begin()->first > now);
      }
    }
    ASSERT_EQ(wheel.size(), model.size());
  }
}

}  // namespace
