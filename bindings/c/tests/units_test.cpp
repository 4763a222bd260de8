// Tests punctual.hpp in two translation units of one program, which must link and share their state.

#include <punctual.hpp>

#include <gtest/gtest.h>

// Defined in units_other.cpp.
punctual::channel<punctual::time::time_point> after_a_second_elsewhere();
punctual::time::exception_handler set_handler_elsewhere(punctual::time::exception_handler handler);
std::size_t select_elsewhere(const punctual::channel<int> &from);

namespace {

using namespace std::chrono_literals;

TEST(Units, ShareChannelsClocksAndHandlers) {
  punctual::time::virtual_time clock;
  const auto here = clock.enter();
  const auto c = after_a_second_elsewhere();
  clock.advance(1s);
  EXPECT_EQ(c.try_recv(), punctual::time::now());

  const punctual::time::exception_handler mine = [](std::exception_ptr) {};
  punctual::time::set_exception_handler(mine);
  EXPECT_EQ(set_handler_elsewhere(nullptr), mine);

  const punctual::channel<int> numbers(1);
  numbers.send(1);
  EXPECT_EQ(select_elsewhere(numbers), 0u);
  EXPECT_EQ(punctual::try_select(punctual::on_recv(numbers)), std::nullopt);
}

}  // namespace
