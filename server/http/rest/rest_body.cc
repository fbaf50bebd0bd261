#include "server/http/rest/rest_body.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using BodyValue = nlohmann::json;

// Bytes of the text that a message shows.
constexpr size_t kShownText = 40;
// Open objects and lists around the key "data" of an input: the body, the list
// of inputs and the input.
constexpr size_t kInputDepth = 3;

// Builds the body from the parser's events. Every handler returns false to end
// the parse; status() then has the reason.
class BodyBuilder final : public nlohmann::json_sax<BodyValue> {
 public:
  explicit BodyBuilder(RestBody* body) : body_(body) {}

  const absl::Status& status() const { return status_; }

  bool null() override {
    if (data_ == nullptr) return Place(nullptr) != nullptr;
    data_->AddOther("null");
    return true;
  }
  bool boolean(bool value) override {
    if (data_ == nullptr) return Place(value) != nullptr;
    data_->AddBool(value);
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (data_ == nullptr) return Place(value) != nullptr;
    data_->AddNegative(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (data_ == nullptr) return Place(value) != nullptr;
    data_->AddUnsigned(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (data_ == nullptr) return Place(value) != nullptr;
    data_->AddFloat(value);
    return true;
  }
  bool string(string_t& value) override {
    if (data_ == nullptr) return Place(std::move(value)) != nullptr;
    data_->AddText(value);
    return true;
  }
  bool binary(binary_t&) override { return Fail("it has binary values"); }

  bool start_object(size_t) override {
    if (data_ != nullptr) return Fail(absl::StrCat(InputText(), kNotAList));
    return Open(BodyValue::object());
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& value) override {
    if (open_.size() == 1) top_key_ = value;
    key_ = value;
    BodyValue& object = *open_.back();
    if (object.contains(value)) {
      return Fail(absl::StrCat("an object has '", value.substr(0, kShownText),
                               "' twice"));
    }
    slot_ = &object[value];
    return true;
  }

  bool start_array(size_t) override {
    if (data_ == nullptr && !IsInputData()) return Open(BodyValue::array());
    if (data_ == nullptr) {
      *slot_ = body_->data.size();
      body_->data.emplace_back();
      data_ = &body_->data.back();
    }
    data_->Open();
    // The elements themselves stop counting at a limit of theirs.
    if (++data_depth_ > kDeepestData) {
      return Fail(absl::StrCat(InputText(), "has lists in lists, more than ",
                               kDeepestData, " deep"));
    }
    return true;
  }
  bool end_array() override {
    if (data_ == nullptr) {
      open_.pop_back();
      return true;
    }
    data_->Close();
    if (--data_depth_ == 0) data_ = nullptr;
    return true;
  }

  bool parse_error(size_t position, const std::string& token,
                   const BodyValue::exception&) override {
    return Fail(absl::StrCat("it is no JSON at byte ", position, ", at '",
                             token.substr(0, kShownText), "'"));
  }

 private:
  static constexpr absl::string_view kNotAList =
      "takes a list of elements, or lists in the shape of the tensor";

  // Puts the value where the parser is, and returns its place; null at a limit.
  BodyValue* Place(BodyValue value) {
    if (++values_ > kMostRestValues) {
      Fail(absl::StrCat("it has more than ", kMostRestValues,
                        " values besides the elements of tensors"));
      return nullptr;
    }
    if (IsInputData()) {
      Fail(absl::StrCat(InputText(), kNotAList));
      return nullptr;
    }
    if (open_.empty()) {
      body_->json = std::move(value);
      return &body_->json;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Open(BodyValue container) {
    if (open_.size() >= kDeepestRestValue) {
      return Fail(absl::StrCat("it has objects or lists in others, more than ",
                               kDeepestRestValue, " deep"));
    }
    BodyValue* const place = Place(std::move(container));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  // Returns whether the next value is "data" of an input.
  bool IsInputData() const {
    return open_.size() == kInputDepth && top_key_ == "inputs" &&
           open_[1]->is_array() && open_[2]->is_object() && key_ == "data";
  }

  // Returns how a message begins: "'data' of input 'x' ". The name may come
  // after the data.
  std::string InputText() const {
    const auto name = open_.back()->find("name");
    if (name == open_.back()->end() || !name->is_string()) return "'data' ";
    return absl::StrCat("'data' of input '",
                        name->get<std::string>().substr(0, kShownText), "' ");
  }

  bool Fail(std::string fault) {
    status_ = absl::InvalidArgumentError(absl::StrCat("the body: ", fault));
    return false;
  }

  RestBody* const body_;
  absl::Status status_;
  std::vector<BodyValue*> open_;  // objects and lists, outermost first
  BodyValue* slot_ = nullptr;     // place of the next value in an object
  std::string top_key_;           // of the body
  std::string key_;               // the newest
  size_t values_ = 0;
  JsonElements* data_ = nullptr;  // set inside "data" of an input
  size_t data_depth_ = 0;
};

}  // namespace

absl::StatusOr<RestBody> ReadRestBody(absl::string_view text) {
  RestBody body;
  BodyBuilder builder(&body);
  const bool read =
      BodyValue::sax_parse(text.data(), text.data() + text.size(), &builder);
  if (!builder.status().ok()) return builder.status();
  if (!read || !body.json.is_object()) {
    return absl::InvalidArgumentError("the body: it takes an object in JSON");
  }
  return body;
}

}  // namespace gpupool::server
