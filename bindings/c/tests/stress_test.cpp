// Stress tests with many threads on the real clock, mainly for ThreadSanitizer. They wait for events,
// not for time to pass.

#include <punctual.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace time = punctual::time;
using namespace std::chrono_literals;
using punctual::channel;
using punctual::on_recv;
using punctual::on_send;

constexpr int threads_at_once = 4;
constexpr int rounds = 200;
constexpr auto time_limit = 60s;

template <class Work>
void at_once(Work work) {
  std::vector<std::thread> threads;
  for (int n = 0; n < threads_at_once; ++n) threads.emplace_back(work, n);
  for (auto &thread : threads) thread.join();
}

TEST(Stress, TimersOfAllKindsAreCreatedStoppedResetAndDestroyed) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  at_once([&](int thread) {
    for (int n = 0; n < rounds; ++n) {
      const std::chrono::microseconds delay((n * 7 + thread * 3) % 50);
      time::timer timer(delay);
      time::timer func = time::after_func(delay, [calls, text = std::string(50, 'x')] { *calls += text.size() == 50; });
      const auto once = time::after(delay);
      time::ticker ticker(1us + delay);
      const auto endless = time::tick(1us + delay);
      if (n % 2 == 0) {
        timer.stop();
        EXPECT_TRUE(timer.c().empty());
        timer.reset(0s);
      }
      func.stop();
      func.reset(1us);
      EXPECT_TRUE(timer.c().recv_for(time_limit));
      EXPECT_TRUE(once.recv_for(time_limit));
      if (n % 4 == 0) {
        EXPECT_TRUE(ticker.c().recv_for(time_limit));
        EXPECT_TRUE(endless.recv_for(time_limit));
      }
      ticker.stop();
      EXPECT_TRUE(ticker.c().empty());
      time::timer moved = std::move(func);
    }
  });
  EXPECT_GT(*calls, 0);
}

TEST(Stress, ThreadsShareATimer) {
  time::timer timer(1h);
  channel<time::time_point> c = timer.c();
  std::atomic<int> received{0}, stopped{1}, armed{1};
  EXPECT_TRUE(timer.stop());
  at_once([&](int thread) {
    for (int n = 0; n < rounds; ++n) {
      if ((n + thread) % 2 == 0) {
        try {
          timer.reset(std::chrono::microseconds(n % 20));
          ++armed;
        } catch (const std::logic_error &) {
          stopped += timer.stop();
        }
      } else if (c.recv_for(std::chrono::microseconds(n % 30))) {
        ++received;
      }
    }
  });
  stopped += timer.stop();
  EXPECT_TRUE(c.empty());
  EXPECT_LE(received + stopped, armed) << "a time that a stop or a reset discards counts as neither received nor stopped";
}

TEST(Stress, FunctionsResetAndDestroyTheirOwnTimers) {
  struct retry {
    std::mutex mutex;
    std::optional<time::timer> timer;
    int calls = 0;
    channel<int> done{1};
  };
  at_once([&](int) {
    for (int n = 0; n < rounds / 4; ++n) {
      const auto shared = std::make_shared<retry>();
      {
        const std::lock_guard<std::mutex> lock(shared->mutex);
        shared->timer.emplace(time::after_func(1us, [shared] {
          const std::lock_guard<std::mutex> again(shared->mutex);
          if (++shared->calls < 5) {
            shared->timer->reset(1us);
          } else {
            shared->timer.reset();
            shared->done.send(shared->calls);
          }
        }));
      }
      EXPECT_EQ(shared->done.recv_for(time_limit), 5);
    }
  });
}

TEST(Stress, SelectOverTimersAndChannelsLosesNothing) {
  const channel<int> left(2), right(1), answers(1);
  std::thread feeders([=] {
    at_once([=](int thread) {
      for (int n = 0; n < rounds; ++n) (thread % 2 == 0 ? left : right).send(1);
    });
    left.close();
    right.close();
  });
  std::thread adder([=] {
    int sum = 0;
    for (const int n : answers) sum += n;
    EXPECT_EQ(sum, threads_at_once * rounds);
  });
  at_once([=](int) {
    auto from_left = left, from_right = right;
    time::ticker ticker(10us);
    while (!from_left.is_nil() || !from_right.is_nil()) {
      int got = 0;
      punctual::select(on_recv(from_left, [&](auto n) { n ? void(got = *n) : void(from_left = {}); }),
                       on_recv(from_right, [&](auto n) { n ? void(got = *n) : void(from_right = {}); }),
                       on_recv(ticker.c()), on_recv(time::after(50us)));
      while (got > 0) punctual::select(on_send(answers, got, [&] { got = 0; }), on_recv(time::after(1us)));
    }
  });
  feeders.join();
  answers.close();
  adder.join();
}

TEST(Stress, ThreadsShareAVirtualClock) {
  time::virtual_time clock;
  std::atomic<int> woken{0};
  std::thread sleepers([&] {
    at_once([&](int) {
      const auto here = clock.enter();
      for (int n = 0; n < 20; ++n) {
        time::sleep(1s);
        const auto timer = time::after_func(1s, [&] { ++woken; });
        EXPECT_TRUE(time::after(2s).recv());
      }
    });
  });
  std::atomic<bool> over{false};
  std::thread advancer([&] {
    while (!over) clock.advance(100ms);
  });
  sleepers.join();
  over = true;
  advancer.join();
  EXPECT_EQ(woken, threads_at_once * 20);
}

}  // namespace
