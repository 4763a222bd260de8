// A worker that collects lines and writes them in batches: when it has four lines, or when the first
// line of the batch has waited for 20 ms.

#include <punctual.hpp>

#include <iostream>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using punctual::channel;
using punctual::on_recv;

namespace {

void write_batches(channel<std::string> lines, channel<std::size_t> written) {
  std::vector<std::string> batch;
  channel<punctual::time::time_point> flush;  // the nil channel, which is never ready, while the batch is empty
  bool open = true;

  const auto write = [&] {
    if (!batch.empty()) std::cout << "a batch of " << batch.size() << ", from " << batch.front() << '\n';
    written.send(batch.size());
    batch.clear();
    flush = {};
  };

  while (open) {
    punctual::select(on_recv(lines,
                             [&](std::optional<std::string> line) {
                               if (!line) {
                                 open = false;
                               } else {
                                 if (batch.empty()) flush = punctual::time::after(20ms);
                                 batch.push_back(std::move(*line));
                                 if (batch.size() == 4) write();
                               }
                             }),
                     on_recv(flush, [&](auto) { write(); }));
  }
  write();
  written.close();
}

}  // namespace

int main() {
  channel<std::string> lines(16);
  channel<std::size_t> written(16);
  std::thread worker(write_batches, lines, written);
  std::size_t total = 0;

  for (int n = 0; n < 6; ++n) lines.send("line " + std::to_string(n));
  while (total < 6) total += *written.recv();  // a batch of four lines, and after the delay a batch of two
  lines.send("line 6");
  lines.close();
  while (const auto count = written.recv()) total += *count;
  worker.join();
  return total == 7 ? 0 : 1;
}
