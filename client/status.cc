#include <string>
#include <utility>

#include "client/client.h"

namespace tvarant::client {

Status::Status(Code code, std::string message) {
  if (code == Code::kOk) return;
  rep_ = std::make_unique<Rep>(Rep{code, std::move(message)});
}

Status::Status(const Status& other)
    : rep_(other.ok() ? nullptr : std::make_unique<Rep>(*other.rep_)) {}

Status& Status::operator=(const Status& other) {
  if (this == &other) return *this;
  rep_ = other.ok() ? nullptr : std::make_unique<Rep>(*other.rep_);
  return *this;
}

const std::string& Status::message() const {
  // Never destroyed: statuses are read during the exit of a process, too.
  static const std::string* const kEmpty = new std::string;
  return ok() ? *kEmpty : rep_->message;
}

}  // namespace tvarant::client
