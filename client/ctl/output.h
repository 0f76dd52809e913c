// How tvarantctl shows things: tables for people, JSON for programs.

#ifndef TVARANT_CLIENT_CTL_OUTPUT_H_
#define TVARANT_CLIENT_CTL_OUTPUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/message.h"

namespace tvarant::client {

// A message as JSON, on one line: the names of the .proto file, every field,
// numbers as numbers.
std::string ToJson(const google::protobuf::Message& message);

// A JSON string with its quotes; bytes that are no UTF-8 are replaced.
std::string JsonString(std::string_view text);

// Columns of text: the first row is the heading. Numbers stand to the right.
// What comes from a client can't move the cursor: control characters become
// '?'.
std::string Table(const std::vector<std::vector<std::string>>& rows);
std::string Printable(std::string_view text);

// "12.5 MiB", "1.2 GiB/s" without the "/s".
std::string Bytes(double bytes);
// "3 d 4 h", "5 min 2 s", "0.4 s".
std::string Duration(double seconds);
// With so many digits after the point.
std::string Number(double value, int digits);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_OUTPUT_H_
