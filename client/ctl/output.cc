#include "client/ctl/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "google/protobuf/descriptor.h"

namespace tvarant::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

// Element `index` of a repeated field, or the field itself for -1.
std::string JsonValue(const Message& message, const FieldDescriptor& field,
                      int index) {
  const Reflection& reflection = *message.GetReflection();
  const auto pick = [&](auto single, auto repeated) {
    return index < 0 ? (reflection.*single)(message, &field)
                     : (reflection.*repeated)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(
          pick(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return std::to_string(
          pick(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(
          pick(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return std::to_string(
          pick(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return JsonNumber(
          pick(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return JsonNumber(
          pick(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_BOOL:
      return pick(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true"
                                                                      : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return JsonString(
          pick(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return JsonString(
          pick(&Reflection::GetString, &Reflection::GetRepeatedString));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(
          index < 0 ? reflection.GetMessage(message, &field)
                    : reflection.GetRepeatedMessage(message, &field, index));
  }
  return "null";
}

// Length of the UTF-8 character at the start; 0 if there is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                        : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool IsNumeric(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + "\"";
}

std::string ToJson(const Message& message) {
  std::string out = "{";
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (i > 0) out += ", ";
    out += JsonString(field.name()) + ": ";
    if (!field.is_repeated()) {
      out += JsonValue(message, field, -1);
      continue;
    }
    out += "[";
    const int size = message.GetReflection()->FieldSize(message, &field);
    for (int k = 0; k < size; ++k) {
      if (k > 0) out += ", ";
      out += JsonValue(message, field, k);
    }
    out += "]";
  }
  return out + "}";
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    // C1 control characters are U+0080 to U+009f: 0xc2 0x80 to 0xc2 0x9f.
    const bool control = c < 0x20 || c == 0x7f ||
                         (length == 2 && c == 0xc2 &&
                          static_cast<unsigned char>(text[1]) < 0xa0);
    if (length == 0 || control) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows.size(); ++r) {
    widths.resize(std::max(widths.size(), rows[r].size()), 0);
    numeric.resize(widths.size(), rows.size() > 1);
    for (size_t c = 0; c < rows[r].size(); ++c) {
      widths[c] = std::max(widths[c], Printable(rows[r][c]).size());
      if (r > 0 && !IsNumeric(rows[r][c])) numeric[c] = false;
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string cell = Printable(row[c]);
      const std::string space(widths[c] - cell.size(), ' ');
      if (c > 0) line += "  ";
      line += numeric[c] ? space + cell : cell + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return Number(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string Duration(double seconds) {
  if (seconds < 10) return Number(seconds, 1) + " s";
  const auto whole = static_cast<int64_t>(seconds);
  const auto two = [](int64_t a, const char* unit_a, int64_t b,
                      const char* unit_b) {
    return std::to_string(a) + " " + unit_a + " " + std::to_string(b) + " " +
           unit_b;
  };
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return two(whole / 3600, "h", whole / 60 % 60, "min");
  return two(whole / 86400, "d", whole / 3600 % 24, "h");
}

}  // namespace tvarant::client
