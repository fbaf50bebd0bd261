#include "client/files/snapshot_segments.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr absl::string_view kProtocol("\x80\x02", 2);
// The begin of a dictionary whose first key is "segments" and whose value is a
// list.
constexpr absl::string_view kBegin("}(X\x08\0\0\0segments", 15);

// Returns the number in `count` bytes at `at`. If the text ends before, returns
// its size, which is more than the bytes that follow.
size_t PickledNumberAt(absl::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return text.size();
  size_t number = 0;
  for (size_t i = count; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(text[at + i]);
  }
  return number;
}

// Returns the length of the operation at `at` with its operand; 0 when it is
// none of pickle_writer.h.
size_t OperationBytes(absl::string_view text, size_t at) {
  switch (static_cast<uint8_t>(text[at])) {
    case '}':
    case ']':
    case '(':
    case 'u':
    case 'e':
    case 0x86:
    case 0x88:
    case 0x89:
      return 1;
    case 'K':
      return 2;
    case 'M':
      return 3;
    case 'J':
      return 5;
    case 0x8a:
      return 2 + PickledNumberAt(text, at + 1, 1);
    case 'X':
      return 5 + PickledNumberAt(text, at + 1, 4);
    default:
      return 0;
  }
}

}  // namespace

bool SegmentsReader::Append(absl::string_view part) {
  if (state_ != State::kBegin && state_ != State::kList) return false;
  bytes_ += part.size();
  text_.append(part.data(), part.size());
  if (state_ == State::kBegin) {
    const std::string begin = absl::StrCat(kProtocol, kBegin, "]");
    if (!absl::StartsWith(begin, text_.substr(0, begin.size()))) {
      state_ = State::kDamaged;
    } else if (text_.size() >= begin.size()) {
      text_.erase(0, begin.size() - 1);
      at_ = segments_end_ = 1;
      state_ = State::kList;
    }
  }
  if (state_ == State::kList) Read();
  return state_ == State::kBegin || state_ == State::kList;
}

void SegmentsReader::Read() {
  while (at_ < text_.size()) {
    // A mark after the end of a batch opens the next batch of the same list.
    if (open_ == 0 && text_[at_] != '(') {
      state_ = State::kComplete;
      return;
    }
    const size_t bytes = OperationBytes(text_, at_);
    if (bytes == 0) {
      state_ = State::kDamaged;
      return;
    }
    if (bytes > text_.size() - at_) break;
    if (at_ + bytes > max_bytes_) break;
    const char operation = text_[at_];
    at_ += bytes;
    if (operation == '(') ++open_;
    if (operation == 'u' || operation == 'e') --open_;
    if (operation == 'u' && open_ == 1) {
      segments_end_ = at_;
      ++segments_;
    }
  }
  if (text_.size() > max_bytes_) state_ = State::kCut;
}

absl::StatusOr<SegmentList> SegmentsReader::Finish() {
  SegmentList list{.is_cut = state_ == State::kCut, .segments = segments_};
  if (list.is_cut) {
    text_.resize(segments_end_);
    if (segments_ > 0) text_ += 'e';
  } else if (state_ == State::kComplete) {
    text_.resize(at_);
  } else {
    return absl::DataLossError(absl::StrCat(
        "the server's memory dump of ", bytes_,
        " bytes has no list of segments in the form that this client knows; "
        "leave out --segments to get it as it is"));
  }
  list.pickle = absl::StrCat(kProtocol, text_, ".");
  text_.clear();
  return list;
}

}  // namespace gpupool::client
