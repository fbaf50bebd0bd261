// Lines of the log as text (--log-format text). The daemon and its workers use
// it.
//
// Thread-safety: any thread; a formatter belongs to one sink.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "spdlog/common.h"
#include "spdlog/formatter.h"

namespace gpupool::server {

// Returns a message that is one line and steers no terminal:
//   * A control character becomes \n, \r, \t or \xNN, also those of C1 in
//   UTF-8.
//   * In a quoted value, name="value", a quote becomes \" and a backslash \\.
//     The value ends at the quote that ends the message, or that a blank and
//     another name= follow.
// Other bytes stay as they are.
std::string EscapedForText(absl::string_view message);

// Returns a formatter of this pattern of spdlog whose messages are escaped.
std::unique_ptr<spdlog::formatter> TextLogFormatter(
    const std::string& pattern, spdlog::pattern_time_type time);

}  // namespace gpupool::server
