// Tests of punctual::time on a virtual clock, without sleeping.

#include <punctual.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace time = punctual::time;
using namespace std::chrono_literals;
using punctual::channel;
using punctual::on_recv;

static_assert(time::clock::is_steady);
static_assert(std::is_same_v<time::time_point::duration, std::chrono::nanoseconds>);

class Time : public testing::Test {
protected:
  time::virtual_time clock;
  time::virtual_time::entered entered{clock};
  time::time_point start = time::now();
};

TEST_F(Time, StandsStillUntilItIsAdvanced) {
  EXPECT_EQ(time::now(), start);
  EXPECT_EQ(time::clock::now(), clock.now());
  clock.advance(90min);
  EXPECT_EQ(time::now() - start, 90min);
  {
    time::virtual_time other;
    const auto within = other.enter();
    EXPECT_NE(time::now(), clock.now());
  }
  EXPECT_EQ(time::now(), clock.now());
  EXPECT_FALSE(clock.advance_to_next());
}

TEST_F(Time, ATimerSendsTheTimeAndCanBeUsedAgain) {
  time::timer timer(2s);
  EXPECT_EQ(clock.pending(), 1u);
  clock.advance(1999ms);
  EXPECT_TRUE(timer.c().empty());
  EXPECT_TRUE(clock.advance_to_next());
  EXPECT_EQ(timer.c().try_recv(), start + 2s);
  EXPECT_FALSE(timer.stop());

  timer.reset(1s);
  clock.advance(1h);
  EXPECT_EQ(timer.c().recv(), start + 3s);
}

TEST_F(Time, StopReturnsWhetherItDisarmedAndLeavesTheChannelEmpty) {
  time::timer timer(1s);
  EXPECT_TRUE(timer.stop());
  EXPECT_FALSE(timer.stop());
  clock.advance(2s);
  EXPECT_TRUE(timer.c().empty());

  timer.reset(1s);
  clock.advance(1s);
  EXPECT_EQ(timer.c().size(), 1u);
  EXPECT_FALSE(timer.stop());
  EXPECT_TRUE(timer.c().empty()) << "nothing to drain";
}

TEST_F(Time, AResetDropsATimeThatWasSentBefore) {
  time::timer timer(1s);
  clock.advance(1s);
  EXPECT_EQ(timer.c().size(), 1u);
  timer.reset(5s);
  EXPECT_TRUE(timer.c().empty()) << "the time of the first arming";
  clock.advance(5s);
  EXPECT_EQ(timer.c().try_recv(), start + 6s);
}

TEST_F(Time, ResetOfAnArmedTimerIsAnError) {
  time::timer timer(1s);
  try {
    timer.reset(2s);
    FAIL();
  } catch (const std::logic_error &error) {
    EXPECT_STREQ(error.what(), "timer::reset: the timer is armed; must be stopped or expired");
  }
  clock.advance(1s);
  EXPECT_EQ(timer.c().try_recv(), start + 1s) << "the refused reset changed nothing";
}

TEST_F(Time, DestroyingATimerDisarmsIt) {
  channel<time::time_point> c;
  {
    time::timer timer(1s);
    c = timer.c();
    time::timer moved = std::move(timer);
    EXPECT_EQ(clock.pending(), 1u);
    EXPECT_EQ(moved.c(), c);
  }
  EXPECT_EQ(clock.pending(), 0u);
  clock.advance(2s);
  EXPECT_TRUE(c.empty());
}

TEST_F(Time, AMovedFromTimerIsNotArmedAndCanBeAssignedTo) {
  time::timer timer(1s);
  time::timer moved = std::move(timer);
  EXPECT_FALSE(timer.stop());
  EXPECT_TRUE(timer.c().is_nil());
  EXPECT_THROW(timer.reset(1s), punctual::error);
  timer = time::timer(2s);
  moved = std::move(timer);
  EXPECT_EQ(clock.pending(), 1u) << "the first is disarmed";
  auto &itself = moved;
  moved = std::move(itself);
  clock.advance(2s);
  EXPECT_EQ(moved.c().try_recv(), start + 2s);

  time::ticker ticker(1s);
  time::ticker taken = std::move(ticker);
  ticker.stop();
  EXPECT_TRUE(ticker.c().is_nil());
  clock.advance(1s);
  EXPECT_EQ(taken.c().size(), 1u);

  time::virtual_time other;
  const time::virtual_time taken_clock = std::move(other);
  EXPECT_THROW(other.advance(1s), punctual::error);
  EXPECT_THROW(other.enter(), punctual::error);
  EXPECT_EQ(other.pending(), 0u);
}

TEST_F(Time, AcceptsAnyFunctionObject) {
  int calls = 0;
  const auto move_only = time::after_func(1s, [&, one = std::make_unique<int>(1)]() mutable { calls += *one; });
  static int functions = 0;
  const auto pointer = time::after_func(1s, +[] { ++functions; });
  clock.advance(1s);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(functions, 1);
  void (*nothing)() = nullptr;
  EXPECT_THROW((void)time::after_func(1s, nothing), std::invalid_argument);
  EXPECT_THROW((void)time::after_func(1s, std::function<void()>()), std::invalid_argument);
  EXPECT_EQ(clock.pending(), 0u);
}

TEST_F(Time, AFuncTimerCallsAndItsChannelIsNil) {
  int calls = 0;
  time::timer timer = time::after_func(1s, [&] { ++calls; });
  EXPECT_TRUE(timer.c().is_nil());
  clock.advance(1s);
  EXPECT_EQ(calls, 1);
  timer.reset(1s);
  EXPECT_TRUE(timer.stop());
  clock.advance(2s);
  EXPECT_EQ(calls, 1);
}

TEST_F(Time, ACallbackResetsItsOwnTimerAndMayDestroyIt) {
  std::vector<time::duration> calls;
  auto timer = std::make_shared<std::optional<time::timer>>();
  const std::weak_ptr<std::optional<time::timer>> self = timer;
  timer->emplace(time::after_func(1s, [&calls, self, start = start, kept = std::make_shared<int>(7)] {
    calls.push_back(time::now() - start);
    const auto timer = self.lock();
    if (calls.size() < 3) {
      (*timer)->reset(1s);
    } else {
      timer->reset();
      EXPECT_EQ(*kept, 7) << "the function outlives its timer";
    }
  }));
  clock.advance(1h);
  EXPECT_EQ(calls, (std::vector<time::duration>{1s, 2s, 3s}));
  EXPECT_FALSE(timer->has_value());
}

std::vector<std::string> reported;

void report(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception &exception) {
    reported.push_back(exception.what());
  } catch (...) {
    reported.push_back("something else");
  }
}

TEST_F(Time, AnExceptionOfACallbackIsReported) {
  const auto before = time::set_exception_handler(report);
  int calls = 0;
  const auto bad = time::after_func(1s, [] { throw std::runtime_error("on purpose"); });
  const auto worse = time::after_func(1s, [] { throw 7; });
  const auto good = time::after_func(1s, [&] { ++calls; });
  clock.advance(1s);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(reported, (std::vector<std::string>{"on purpose", "something else"}));
  time::set_exception_handler(before);

  testing::internal::CaptureStderr();
  const auto printed = time::after_func(1s, [] { throw std::runtime_error("to stderr"); });
  clock.advance(1s);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "punctual: a callback threw: to stderr\n");
}

extern "C" void throw_through_c(void *) { throw std::runtime_error("through C"); }

TEST_F(Time, AnExceptionOfACFunctionEndsTheProcess) {
  punctual_timer *timer = punctual_after_func(1, throw_through_c, nullptr, nullptr);
  EXPECT_DEATH(clock.advance(1s), "exception");
  punctual_timer_free(timer);
}

TEST_F(Time, ATickerSkipsTicksAndNeverDrifts) {
  time::ticker ticker(100ms);
  clock.advance(1s);
  EXPECT_EQ(ticker.c().try_recv(), start + 100ms);
  EXPECT_EQ(ticker.c().try_recv(), std::nullopt);
  clock.advance(50ms);
  EXPECT_TRUE(ticker.c().empty());
  clock.advance(50ms);
  EXPECT_EQ(ticker.c().try_recv(), start + 1100ms);
  clock.advance(100ms);
  ticker.stop();
  EXPECT_TRUE(ticker.c().empty());
  clock.advance(1s);
  EXPECT_TRUE(ticker.c().empty());
  EXPECT_EQ(clock.pending(), 0u);
  EXPECT_THROW(time::ticker(0s), std::invalid_argument);
  EXPECT_THROW(time::ticker(-1s), std::invalid_argument);
}

TEST_F(Time, AfterAndTickLeaveNoTimers) {
  const auto once = time::after(1s);
  auto again = time::tick(1s);
  clock.advance(1s);
  EXPECT_EQ(once.recv(), start + 1s);
  EXPECT_EQ(again.recv(), start + 1s);
  clock.advance(1s);
  EXPECT_TRUE(once.empty());
  EXPECT_EQ(again.recv(), start + 2s);

  EXPECT_EQ(clock.pending(), 1u);
  again = {};
  EXPECT_EQ(clock.pending(), 0u) << "the channel was destroyed";
  for (int n = 0; n < 10; ++n) punctual::try_select(on_recv(time::after(1h)));
  EXPECT_EQ(clock.pending(), 0u) << "a finished recv_for leaves no timer";
  EXPECT_TRUE(time::tick(0s).is_nil());
  EXPECT_TRUE(time::tick(-1s).is_nil());
}

TEST_F(Time, AcceptsAnyDuration) {
  const auto at_once = time::after(-1h);
  const auto never = time::after(std::chrono::hours::max());
  const auto rounded_up = time::after(std::chrono::duration<double, std::nano>(1.5));
  clock.advance(0s);
  EXPECT_EQ(at_once.size(), 1u);
  clock.advance(1ns);
  EXPECT_TRUE(rounded_up.empty());
  clock.advance(1ns);
  EXPECT_EQ(rounded_up.size(), 1u);
  clock.advance(24h * 365 * 100);
  EXPECT_TRUE(never.empty());
  time::sleep(-1s);
  time::sleep(std::chrono::hours::min());
}

TEST(Duration, IsRoundedUpAndSaturates) {
  using time::detail::to_ns;
  using double_seconds = std::chrono::duration<double>;
  constexpr std::int64_t longest = INT64_MAX;
  EXPECT_EQ(to_ns(0s), 0);
  EXPECT_EQ(to_ns(-1ns), 0);
  EXPECT_EQ(to_ns(std::chrono::duration<std::int64_t, std::pico>(1)), 1);
  EXPECT_EQ(to_ns(std::chrono::duration<std::int64_t, std::pico>(2001)), 3);
  EXPECT_EQ(to_ns(std::chrono::duration<int, std::ratio<1, 30>>(1)), 33333334);
  EXPECT_EQ(to_ns(std::chrono::duration<std::uint8_t>(255)), 255000000000);
  EXPECT_EQ(to_ns(std::chrono::nanoseconds::max()), longest);
  EXPECT_EQ(to_ns(std::chrono::nanoseconds(longest - 1)), longest - 1);
  EXPECT_EQ(to_ns(std::chrono::hours::max()), longest);
  EXPECT_EQ(to_ns(std::chrono::hours::min()), 0);
  EXPECT_EQ(to_ns(2562047h), 2562047 * 3600000000000);
  EXPECT_EQ(to_ns(2562048h), longest);
  EXPECT_EQ(to_ns(std::chrono::duration<std::uint64_t>(UINT64_MAX)), longest);
  EXPECT_EQ(to_ns(std::chrono::duration<std::uint64_t, std::nano>(UINT64_MAX)), longest);
  using frames = std::chrono::duration<std::int64_t, std::ratio<1, 30>>;
  EXPECT_EQ(to_ns(frames::max()), longest);
  EXPECT_NEAR(static_cast<double>(to_ns(frames(200000000000))), 200e9 / 30 * 1e9, 1e4) << "200 years of frames";
  EXPECT_EQ(to_ns(double_seconds(1e-10)), 1);
  EXPECT_EQ(to_ns(double_seconds(1.5)), 1500000000);
  EXPECT_EQ(to_ns(double_seconds(-0.0)), 0);
  EXPECT_EQ(to_ns(double_seconds(std::numeric_limits<double>::quiet_NaN())), 0);
  EXPECT_EQ(to_ns(double_seconds(std::numeric_limits<double>::infinity())), longest);
  EXPECT_EQ(to_ns(double_seconds(-std::numeric_limits<double>::infinity())), 0);
  EXPECT_EQ(to_ns(double_seconds::max()), longest);
  // As a double of nanoseconds, `edge` would already be 2^63.
  double edge = 9223372036.8547758;
  for (int n = 0; n < 2000; ++n, edge = std::nextafter(edge, 0)) EXPECT_GT(to_ns(double_seconds(edge)), longest - 10000000);
}

TEST_F(Time, OtherThreadsSleepAndReceiveOnTheClock) {
  std::thread sleeper([this] {
    const auto here = clock.enter();
    time::sleep(1h);
    EXPECT_EQ(time::now(), start + 1h);
  });
  channel<int> quiet(1), later(1);
  std::thread receiver([&] {
    const auto here = clock.enter();
    EXPECT_EQ(quiet.recv_for(2h), std::nullopt);
    EXPECT_EQ(time::now(), start + 2h);
    EXPECT_EQ(later.recv_for(10h), 7);
    EXPECT_EQ(later.recv_for(0s), std::nullopt);
    EXPECT_EQ(channel<int>().recv_for(-1s), std::nullopt);
    EXPECT_EQ(channel<int>(0).recv_for(0s), std::nullopt);
  });
  clock.wait_for_pending(2);
  clock.advance(1h);
  sleeper.join();
  clock.advance(1h);
  later.send(7);
  receiver.join();
}

TEST_F(Time, SelectTakesTheFirstReadyCase) {
  time::timer slow(3s);
  const auto fast = time::after(2s);
  channel<std::string> never;
  std::thread waiting([&] {
    std::optional<time::time_point> got;
    EXPECT_EQ(punctual::select(on_recv(slow.c(), [](auto) { ADD_FAILURE(); }),
                               on_recv(fast, [&](auto time) { got = time; }), on_recv(never, [](auto) {})),
              1u);
    EXPECT_EQ(got, start + 2s);
  });
  clock.advance(2s);
  waiting.join();
}

TEST_F(Time, ACallbackCannotWaitForItself) {
  int refused = 0;
  const auto timer = time::after_func(1s, [&] {
    try {
      time::sleep(1s);
    } catch (const punctual::error &error) {
      refused += error.status() == PUNCTUAL_REENTERED;
    }
    try {
      clock.advance(1s);
    } catch (const punctual::error &error) {
      refused += error.status() == PUNCTUAL_REENTERED;
    }
    try {
      channel<int>(1).recv_for(1s);
    } catch (const punctual::error &error) {
      refused += error.status() == PUNCTUAL_REENTERED;
    }
  });
  clock.advance(1s);
  EXPECT_EQ(refused, 3);
}

}  // namespace
