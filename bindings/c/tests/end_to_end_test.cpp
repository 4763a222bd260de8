// Tests on the real clock with the library's threads. Only these tests sleep.

#include <punctual.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

namespace time = punctual::time;
using namespace std::chrono_literals;
using punctual::channel;

/// Time limit for events that must happen, long enough for a busy machine.
constexpr auto time_limit = 60s;

TEST(EndToEnd, NoTimerFiresEarly) {
  const auto start = time::now();
  const auto steady = std::chrono::steady_clock::now();
  time::sleep(5ms);
  EXPECT_GE(time::now() - start, 5ms);
  EXPECT_GE(std::chrono::steady_clock::now() - steady, 5ms);

  time::timer timer(10ms);
  const auto sent = timer.c().recv_for(time_limit);
  ASSERT_TRUE(sent);
  EXPECT_GE(*sent - start, 15ms);
  EXPECT_EQ(timer.c().recv_for(5ms), std::nullopt);
}

TEST(EndToEnd, ABlockedCallbackDelaysNoOther) {
  channel<int> gate(1), out(4);
  const auto blocked = time::after_func(1ms, [=] {
    gate.recv();
    out.send(1);
  });
  const auto free = time::after_func(2ms, [=] { out.send(2); });
  EXPECT_EQ(out.recv_for(time_limit), 2);
  gate.send(0);
  EXPECT_EQ(out.recv_for(time_limit), 1);
}

TEST(EndToEnd, ATickerTicksUntilItIsStopped) {
  const auto start = time::now();
  time::ticker ticker(2ms);
  for (int n = 1; n <= 5; ++n) {
    const auto ticked = ticker.c().recv_for(time_limit);
    ASSERT_TRUE(ticked);
    EXPECT_GE((*ticked - start).count(), time::duration(2ms * n).count());
  }
  ticker.stop();
  EXPECT_EQ(ticker.c().recv_for(10ms), std::nullopt);
  auto endless = time::tick(1ms);
  EXPECT_TRUE(endless.recv_for(time_limit));
}

/// Stops timers while they fire: the result of a stop must be correct, and no value may come after it.
TEST(EndToEnd, AStopReturnsTheCorrectResultAtAnyMoment) {
  std::vector<std::thread> threads;
  std::atomic<int> stopped{0}, fired{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      time::timer timer(1h);
      EXPECT_TRUE(timer.stop());
      for (int n = 0; n < 300; ++n) {
        timer.reset(std::chrono::microseconds((n * 7 + thread) % 120));
        if (n % 3 == 0) std::this_thread::yield();
        if (n % 2 == 0) {
          ++(timer.stop() ? stopped : fired);
          EXPECT_TRUE(timer.c().empty());
        } else if (timer.c().recv_for(std::chrono::microseconds(n % 100))) {
          ++fired;
          EXPECT_FALSE(timer.stop());
        } else {
          ++(timer.stop() ? stopped : fired);
        }
        EXPECT_TRUE(timer.c().empty());
      }
    });
  }
  for (auto &thread : threads) thread.join();
  EXPECT_EQ(stopped + fired, 1200);
}

TEST(EndToEnd, ManyCallbacksAllRunAndTheirStateIsDestroyed) {
  const auto counted = std::make_shared<std::atomic<int>>(0);
  {
    std::vector<time::timer> timers;
    for (int n = 0; n < 2000; ++n) timers.push_back(time::after_func(std::chrono::microseconds(n), [counted] { ++*counted; }));
    channel<int> none;
    for (int n = 0; n < 60000 && *counted < 2000; ++n) none.recv_for(1ms);
    EXPECT_EQ(*counted, 2000);
  }
  // The last calls may still be returning.
  for (int n = 0; n < 60000 && counted.use_count() > 1; ++n) time::sleep(1ms);
  EXPECT_EQ(counted.use_count(), 1);
}

}  // namespace
