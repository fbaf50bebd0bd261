// Private to server/api: what a call is about, for the audit log, as the names
// and numbers in its messages say: "id=7 name=digits".
//
// Thread-safety: none. Ownership: keeps no messages.
#pragma once

#include <google/protobuf/message.h>

#include <array>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::server {

class CallObject {
 public:
  // Takes what a message says in the fields of the table in the source file.
  // What was known before stays. So take the request first: the answer adds the
  // id of what was made.
  void Take(const google::protobuf::Message& message);

  // Returns what is known, in the order of the table. Texts with blanks, equal
  // signs or control characters are in quotes.
  std::string Text() const;
  // Returns the field `request_id` of a message; empty if there was none.
  const std::string& request_id() const { return request_id_; }

 private:
  static constexpr size_t kFields = 8;

  void TakeFields(const google::protobuf::Message& message);

  std::array<std::string, kFields> values_;
  std::string request_id_;
};

}  // namespace gpupool::server
