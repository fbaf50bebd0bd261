#include "server/api/validation/device_check.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {
namespace {

constexpr absl::string_view kWhatItIs =
    "it must be a kind (\"cuda\" or \"cpu\"), one device such as \"cuda:0\", "
    "or \"any\"; see `gpupool devices`";

constexpr size_t kMostDigits = 4;

bool IsKind(absl::string_view text) { return text == "cpu" || text == "cuda"; }

// Returns whether the text is a number in the form of device names.
bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         absl::c_all_of(text, absl::ascii_isdigit) &&
         (text == "0" || text.front() != '0');
}

// Returns the number without spaces, sign and leading zeros: "1" for " +01".
absl::string_view BareNumber(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::ConsumePrefix(&text, "+");
  while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
  return text;
}

// Returns what is wrong with the text after the kind's colon.
std::string NumberAdvice(absl::string_view kind, absl::string_view number) {
  const absl::string_view bare = BareNumber(number);
  if (IsNumber(bare)) {
    return absl::StrCat("write \"", kind, ":", bare,
                        "\", without spaces, signs or leading zeros");
  }
  if (!bare.empty() && absl::c_all_of(bare, absl::ascii_isdigit)) {
    return absl::StrCat("the number of a device has at most ", kMostDigits,
                        " digits; see `gpupool devices`");
  }
  return absl::StrCat("a number comes after the colon, as in \"", kind,
                      ":0\"; \"", kind, "\" alone takes any of them");
}

// Returns the device that was probably meant, or "".
std::string Meant(absl::string_view device) {
  const std::string lower = absl::AsciiStrToLower(device);
  absl::string_view rest = lower;
  if (IsNumber(rest)) return absl::StrCat("cuda:", rest);
  const bool is_gpu =
      absl::ConsumePrefix(&rest, "gpu") || absl::ConsumePrefix(&rest, "cuda");
  if (!is_gpu && !absl::ConsumePrefix(&rest, "cpu")) return "";
  const absl::string_view kind = is_gpu ? "cuda" : "cpu";
  if (rest.empty()) return std::string(kind);
  if (!absl::ConsumePrefix(&rest, ":")) return "";
  return IsNumber(rest) ? absl::StrCat(kind, ":", rest) : "";
}

// Checks the form of a device's name. `several` is the remedy for a list of
// devices.
absl::Status Check(absl::string_view field, const std::string& device,
                   absl::string_view several) {
  if (device.empty() || device == "any" || IsKind(device)) {
    return absl::OkStatus();
  }
  const auto refused = [&](const auto&... advice) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", Quoted(device), "; ", advice...));
  };
  const size_t colon = device.find(':');
  const absl::string_view kind =
      absl::StripAsciiWhitespace(absl::string_view(device).substr(0, colon));
  if (colon != std::string::npos && IsKind(kind)) {
    const absl::string_view number =
        absl::string_view(device).substr(colon + 1);
    if (IsNumber(number) && kind.size() == colon) return absl::OkStatus();
    if (absl::StrContains(number, ',')) {
      return refused("it names one device or a kind; ",
                     absl::Substitute(several, kind));
    }
    return refused(NumberAdvice(kind, number));
  }
  const std::string meant = Meant(absl::StripAsciiWhitespace(device));
  return refused(meant.empty() ? "" : absl::StrCat("write \"", meant, "\": "),
                 kWhatItIs);
}

}  // namespace

absl::Status CheckDevice(absl::string_view field, const std::string& device) {
  return Check(field, device,
               "for several devices write \"$0\" and their number in "
               "`devices`");
}

absl::Status CheckVersionDevice(const std::string& device) {
  return Check("device", device,
               "a version is loaded on one of them: write that, or \"$0\" to "
               "take whichever is free");
}

absl::Status CheckDeviceCount(const std::string& device,
                              uint32_t most_devices) {
  const size_t colon = device.find(':');
  if (colon == std::string::npos || most_devices <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "device is ", Quoted(device), ", one device, and the job wants up to ",
      most_devices, "; write `device: ", device.substr(0, colon),
      "` for that many of the kind, or leave `devices` and `max_devices` out"));
}

}  // namespace gpupool::server
