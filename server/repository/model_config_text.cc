#include "server/repository/model_config_text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

// The schema has fewer levels. A limit keeps the parser's stack small.
constexpr int kMostLevels = 16;

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    // The parser counts from 0, and has -1 where it knows no place.
    if (line >= 0) text_ = absl::StrCat("line ", line + 1, ", ");
    if (line >= 0) absl::StrAppend(&text_, "column ", column + 1, ": ");
    absl::StrAppend(&text_, message);
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber,
                  const std::string&) override {}

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::StatusOr<inference::ModelConfig> ParseModelConfig(
    const std::string& text) {
  if (text.size() > kMaxConfigBytes) {
    return engine::Refuse("config.pbtxt has ", text.size(),
                          " bytes, the limit is ", kMaxConfigBytes);
  }
  if (!engine::IsUtf8(text)) {
    return engine::Refuse(
        "config.pbtxt has bytes that are no text; write it in protobuf's text "
        "format");
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMostLevels);
  inference::ModelConfig config;
  if (parser.ParseFromString(text, &config)) return config;
  return engine::Refuse("config.pbtxt cannot be read: ", error.text());
}

}  // namespace gpupool::server
