// The exception for errors of the C library.
#ifndef PUNCTUAL_ERROR_HPP
#define PUNCTUAL_ERROR_HPP

#include "../punctual.h"
#include "language.hpp"

#include <stdexcept>

namespace punctual {

/// A function of the C library has returned an error.
class error : public std::runtime_error {
public:
  explicit error(punctual_status status)
      : std::runtime_error(punctual_strerror(static_cast<int>(status))), status_(status) {}

  /// Returns the status that the function returned.
  punctual_status status() const noexcept { return status_; }

private:
  punctual_status status_;
};

/// Throws an error unless `status` is PUNCTUAL_OK.
inline void check(punctual_status status) {
  if (status != PUNCTUAL_OK) throw error(status);
}

}  // namespace punctual

#endif
