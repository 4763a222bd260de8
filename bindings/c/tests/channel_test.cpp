// Tests of punctual::channel<T> and select. They join threads and never sleep.

#include <punctual/channel.hpp>

#include <gtest/gtest.h>

#include <sys/select.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>

namespace {

using punctual::channel;
using punctual::on_recv;
using punctual::on_send;

TEST(Channel, IsFirstInFirstOutAndBounded) {
  channel<std::string> names(2);
  EXPECT_EQ(names.capacity(), 2u);
  EXPECT_TRUE(names.try_send("a"));
  names.send("b");
  EXPECT_FALSE(names.try_send("c"));
  EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(names.recv(), "a");
  EXPECT_TRUE(names.try_send("c"));
  EXPECT_EQ(names.try_recv(), "b");
  EXPECT_EQ(names.try_recv(), "c");
  EXPECT_EQ(names.try_recv(), std::nullopt);
  EXPECT_TRUE(names.empty());
}

TEST(Channel, CarriesMoveOnlyValues) {
  channel<std::unique_ptr<int>> owners(1);
  owners.send(std::make_unique<int>(7));
  EXPECT_EQ(**owners.recv(), 7);
}

TEST(Channel, IsDrainedAfterItIsClosed) {
  channel<int> numbers(3);
  numbers.send(1);
  numbers.close();
  numbers.close();
  EXPECT_TRUE(numbers.closed());
  EXPECT_THROW(numbers.send(2), punctual::closed_channel);
  EXPECT_THROW(numbers.try_send(2), punctual::closed_channel);
  EXPECT_EQ(numbers.recv(), 1);
  EXPECT_EQ(numbers.recv(), std::nullopt);
  EXPECT_EQ(numbers.try_recv(), std::nullopt);
}

TEST(Channel, IsReadByARangeBasedForUntilItIsClosed) {
  channel<std::unique_ptr<int>> owners(3);
  for (int n = 1; n <= 3; ++n) owners.send(std::make_unique<int>(n));
  owners.close();
  int sum = 0;
  for (std::unique_ptr<int> owner : owners) sum += *owner;
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(owners.begin(), owners.end());

  channel<int> numbers(4);
  for (int n = 0; n < 4; ++n) numbers.send(n);
  numbers.close();
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 6);
}

TEST(Channel, NilIsNeverReady) {
  channel<int> nil;
  EXPECT_TRUE(nil.is_nil());
  EXPECT_FALSE(nil.try_send(1));
  EXPECT_EQ(nil.try_recv(), std::nullopt);
  nil.close();
  EXPECT_FALSE(nil.closed());
  EXPECT_EQ(nil.capacity(), 0u);
  EXPECT_EQ(nil, channel<int>());
  EXPECT_NE(nil, channel<int>(1));
  EXPECT_EQ(punctual::try_select(on_recv(nil, [](auto) {}), on_send(nil, 1, [] {})), std::nullopt);
}

TEST(Unbuffered, ASenderWaitsForItsReceiver) {
  channel<std::unique_ptr<int>> owners(0);
  EXPECT_FALSE(owners.is_nil());
  EXPECT_EQ(owners.capacity(), 0u);
  EXPECT_FALSE(owners.try_send(std::make_unique<int>(1)));
  EXPECT_EQ(owners.try_recv(), std::nullopt);
  EXPECT_NE(owners, channel<std::unique_ptr<int>>(0));
  bool received = false;
  std::thread receiver([&] {
    received = true;
    EXPECT_EQ(**owners.recv(), 7);
  });
  owners.send(std::make_unique<int>(7));
  EXPECT_TRUE(received) << "the send returned before a receiver came";
  receiver.join();
  EXPECT_TRUE(owners.empty());
}

TEST(Unbuffered, TrySendAndTryRecvFindAWaitingThread) {
  channel<int> there(0);
  channel<int> back(0);
  std::thread other([=] {
    const std::optional<int> n = there.recv();
    back.send(*n + 1);
  });
  while (!there.try_send(1)) std::this_thread::yield();
  std::optional<int> n;
  while (!(n = back.try_recv())) std::this_thread::yield();
  EXPECT_EQ(n, 2);
  other.join();
}

TEST(Unbuffered, CloseEndsAllWaits) {
  channel<int> numbers(0);
  std::thread receiver([=] { EXPECT_EQ(numbers.recv(), std::nullopt); });
  std::thread chooser([=] { EXPECT_EQ(punctual::select(on_recv(numbers), on_recv(channel<int>())), 0u); });
  numbers.close();
  receiver.join();
  chooser.join();
  EXPECT_THROW(numbers.send(1), punctual::closed_channel);
  EXPECT_THROW((void)numbers.try_send(1), punctual::closed_channel);

  channel<int> full(0);
  std::thread sender([=] { EXPECT_THROW(full.send(1), punctual::closed_channel); });
  full.close();
  sender.join();
}

TEST(Unbuffered, ASelectDoesNotMeetItself) {
  channel<int> loop(0);
  channel<int> other(1);
  other.send(1);
  EXPECT_EQ(punctual::select(on_recv(loop), on_send(loop, 5), on_recv(other)), 2u);
  EXPECT_EQ(punctual::try_select(on_recv(loop), on_send(loop, 5)), std::nullopt);
}

// Each thread sends on one channel or receives from the other, whichever is ready. Every value must
// arrive once, although each operation meets a partner that has other cases too.
TEST(Unbuffered, SelectsMeetSelects) {
  constexpr int rounds = 5000;
  channel<int> a(0);
  channel<int> b(0);
  long sent = 0;
  long received = 0;
  const auto swap = [&](channel<int> out, channel<int> in, long &sum_out, long &sum_in) {
    for (int n = 1; n <= rounds; ++n) {
      punctual::select(on_send(out, n, [&] { sum_out += n; }), on_recv(in, [&](std::optional<int> got) { sum_in += *got; }));
    }
  };
  long sent_too = 0;
  long received_too = 0;
  std::thread one([&] { swap(a, b, sent, received); });
  std::thread two([&] { swap(b, a, sent_too, received_too); });
  one.join();
  two.join();
  EXPECT_EQ(sent, received_too);
  EXPECT_EQ(sent_too, received);
}

TEST(Unbuffered, LosesNothingBetweenManyThreads) {
  channel<int> numbers(0);
  channel<int> others(0);
  channel<long> sums(4);
  std::vector<std::thread> senders;
  std::vector<std::thread> receivers;
  for (int thread = 0; thread < 4; ++thread) {
    senders.emplace_back([=] {
      for (int n = 0; n < 1000; ++n) {
        if (n % 2 == 0) {
          numbers.send(n);
        } else {
          punctual::select(on_send(numbers, n), on_send(others, n));
        }
      }
    });
    receivers.emplace_back([=] {
      long sum = 0;
      for (bool going = true; going;) {
        const auto add = [&](std::optional<int> n) {
          going = n.has_value();
          sum += n.value_or(0);
        };
        punctual::select(on_recv(numbers, add), on_recv(others, add));
      }
      sums.send(sum);
    });
  }
  for (std::thread &each : senders) each.join();
  numbers.close();
  others.close();
  for (std::thread &each : receivers) each.join();
  long sum = 0;
  for (int thread = 0; thread < 4; ++thread) sum += *sums.recv();
  EXPECT_EQ(sum, 4 * 999 * 1000 / 2);
}

TEST(Channel, LosesNothingBetweenManyThreads) {
  channel<int> numbers(3);
  channel<long> sums(4);
  std::vector<std::thread> threads;
  for (int sender = 0; sender < 4; ++sender) {
    threads.emplace_back([=] {
      for (int n = 0; n < 1000; ++n) numbers.send(n);
    });
    threads.emplace_back([=] {
      long sum = 0;
      while (const auto n = numbers.recv()) sum += *n;
      sums.send(sum);
    });
  }
  for (std::size_t n = 0; n < threads.size(); n += 2) threads[n].join();
  numbers.close();
  for (std::size_t n = 1; n < threads.size(); n += 2) threads[n].join();
  long sum = 0;
  while (const auto part = sums.try_recv()) sum += *part;
  EXPECT_EQ(sum, 4 * 999 * 1000 / 2);
}

TEST(Channel, ClosingWakesWaitingThreads) {
  channel<int> empty(1);
  channel<int> full(1);
  full.send(1);
  std::thread receiver([=] { EXPECT_EQ(empty.recv(), std::nullopt); });
  std::thread sender([=] { EXPECT_THROW(full.send(2), punctual::closed_channel); });
  std::thread selecting([=] {
    channel<int> nil;
    EXPECT_EQ(punctual::select(on_recv(nil, [](auto) {}), on_recv(empty, [](auto n) { EXPECT_FALSE(n); })), 1u);
  });
  empty.close();
  full.close();
  receiver.join();
  sender.join();
  selecting.join();
}

TEST(Select, PerformsAReadyCase) {
  channel<int> numbers(1);
  channel<std::string> names(1);
  std::string seen;
  const auto once = [&] {
    return punctual::try_select(on_recv(numbers, [&](auto n) { seen = "got " + std::to_string(*n); }),
                                on_send(names, std::string("name"), [&] { seen = "sent"; }));
  };
  EXPECT_EQ(once(), 1u);
  EXPECT_EQ(seen, "sent");
  EXPECT_EQ(once(), std::nullopt);
  numbers.send(5);
  EXPECT_EQ(once(), 0u);
  EXPECT_EQ(seen, "got 5");
  EXPECT_EQ(names.recv(), "name");
  names.close();
  EXPECT_THROW(once(), punctual::closed_channel);
}

// punctual::select does not conflict with a select in the global namespace, such as select(2).
using namespace punctual;

TEST(Select, AcceptsOnlyCases) {
  fd_set none;
  FD_ZERO(&none);
  timeval at_once{0, 0};
  EXPECT_EQ(select(0, &none, nullptr, nullptr, &at_once), 0);
  EXPECT_EQ(try_select(), std::nullopt);
  EXPECT_EQ(try_select(on_recv(channel<int>())), std::nullopt);
}

TEST(Select, CasesMayOmitTheCallback) {
  const channel<int> numbers(1);
  EXPECT_EQ(punctual::select(on_send(numbers, 1)), 0u);
  bool done = false;
  EXPECT_EQ(punctual::select(on_recv(numbers, [&] { done = true; }), on_recv(channel<int>())), 0u);
  EXPECT_TRUE(done);
  EXPECT_TRUE(numbers.empty());
}

TEST(Select, StarvesNoCase) {
  channel<int> left(1), right(1);
  int taken[2] = {0, 0};
  for (int n = 0; n < 1000; ++n) {
    left.try_send(n);
    right.try_send(n);
    ++taken[punctual::select(on_recv(left, [](auto) {}), on_recv(right, [](auto) {}))];
  }
  EXPECT_GT(taken[0], 300);
  EXPECT_GT(taken[1], 300);
}

TEST(Select, WaitsForOtherThreadsAndLosesNothing) {
  channel<int> left(1), right(1), out(1);
  std::thread sender_left([=] {
    for (int n = 0; n < 2000; ++n) left.send(1);
    left.close();
  });
  std::thread sender_right([=] {
    for (int n = 0; n < 2000; ++n) right.send(1);
    right.close();
  });
  std::thread receiver([=] {
    int total = 0;
    while (const auto n = out.recv()) total += *n;
    EXPECT_EQ(total, 500);
  });
  int received = 0, sent = 0;
  channel<int> from_left = left, from_right = right, to = out;
  while (!from_left.is_nil() || !from_right.is_nil() || sent < 500) {
    punctual::select(on_recv(from_left, [&](auto n) { n ? void(received += *n) : void(from_left = {}); }),
                     on_recv(from_right, [&](auto n) { n ? void(received += *n) : void(from_right = {}); }),
                     on_send(sent < 500 ? to : channel<int>(), 1, [&] { ++sent; }));
  }
  out.close();
  sender_left.join();
  sender_right.join();
  receiver.join();
  EXPECT_EQ(received, 4000);
}

}  // namespace
