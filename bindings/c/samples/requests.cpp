// Retries of an event loop. The wheel owns the requests that wait for their next attempt.

#include <punctual/wheel.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace {

struct request {
  std::string name;
  int attempts;
};

}  // namespace

int main() {
  punctual::wheel<std::unique_ptr<request>> retries;
  auto lucky = retries.insert(100, std::make_unique<request>(request{"lucky", 1}));
  retries.insert(100, std::make_unique<request>(request{"unlucky", 1}));

  retries.remove(lucky);  // the reply arrived: the returned request is destroyed here

  int given_up = 0;
  for (std::uint64_t now_ms = 0; !retries.empty(); now_ms = *retries.next_wakeup()) {
    retries.poll(now_ms, 1000, [&](auto &&due) {
      std::unique_ptr<request> again = std::move(due.value);
      std::cout << now_ms << " ms: " << again->name << ", attempt " << again->attempts << '\n';
      if (++again->attempts > 4) {
        ++given_up;
        return;
      }
      const std::uint64_t wait_ms = std::uint64_t{100} << again->attempts;
      retries.insert(now_ms + wait_ms, std::move(again));
    });
    if (retries.empty()) break;
  }
  return given_up == 1 ? 0 : 1;
}
