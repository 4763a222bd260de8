// Errors of the library as an exception.
#ifndef PUNCTUAL_ERROR_HPP
#define PUNCTUAL_ERROR_HPP

#include "../punctual.h"
#include "language.hpp"

#include <stdexcept>

namespace punctual {

/// The C library refused a call.
class error : public std::runtime_error {
public:
  explicit error(punctual_status status)
      : std::runtime_error(punctual_strerror(static_cast<int>(status))), status_(status) {}

  /// Returns the reason.
  punctual_status status() const noexcept { return status_; }

private:
  punctual_status status_;
};

/// Throws unless `status` is PUNCTUAL_OK.
inline void check(punctual_status status) {
  if (status != PUNCTUAL_OK) throw error(status);
}

}  // namespace punctual

#endif
