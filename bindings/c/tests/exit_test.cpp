// A program and its threads end while timers are armed. Static and thread-local objects use the
// library in their destructors. The program must exit with 0, and must not hang.

#include "check.h"

#include <punctual.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace {

namespace time = punctual::time;
using namespace std::chrono_literals;

std::atomic<int> goodbyes{0};

/// An object whose destructor uses the library while a thread or the program ends.
struct goodbye {
  bool used = false;
  ~goodbye() {
    if (!used) return;
    CHECK(!punctual_time_is_virtual());
    CHECK(!punctual::channel<int>(1).recv_for(1ms));
    CHECK(time::after(1ms).recv());
    time::timer timer(1h);
    CHECK(timer.stop());
    time::sleep(1ms);
    ++goodbyes;
  }
};

thread_local goodbye of_thread;
goodbye of_program;

// Destroyed in reverse order, after main has returned and its thread-local objects are destroyed.
time::timer never(1h);
time::ticker often(100us);
std::vector<time::timer> several;

}  // namespace

int main() {
  of_program.used = true;
  std::thread([] {
    of_thread.used = true; // before the library creates its state of this thread, which is thus destroyed first
    time::virtual_time clock;
    {
      const auto here = clock.enter();
      time::after(1s);
    }
    time::virtual_time other;
    static thread_local std::optional<time::virtual_time::entered> left_late;
    left_late.emplace(other);
    CHECK(punctual_time_is_virtual());
    left_late.reset();
  }).join();
  CHECK(goodbyes == 1);

  of_thread.used = true;
  for (int n = 0; n < 100; ++n) several.push_back(time::after_func(std::chrono::microseconds(n * 50), [] { ++goodbyes; }));
  never.stop();
  never.reset(2h);
  CHECK(often.c().recv_for(60s));
  std::puts("ok a_program_exits_with_armed_timers");
  return 0;
}
