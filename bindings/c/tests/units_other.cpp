// The second translation unit of units_test.cpp.

#include <punctual.hpp>

punctual::channel<punctual::time::time_point> after_a_second_elsewhere() {
  return punctual::time::after(std::chrono::seconds(1));
}

punctual::time::exception_handler set_handler_elsewhere(punctual::time::exception_handler handler) {
  return punctual::time::set_exception_handler(handler);
}

std::size_t select_elsewhere(const punctual::channel<int> &from) {
  return punctual::select(punctual::on_recv(from, [](std::optional<int>) {}));
}
