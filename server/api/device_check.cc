#include "server/api/device_check.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/api/convert.h"

namespace gpupool::server {
namespace {

constexpr absl::string_view kWhatItIs =
    "it must be a kind (\"cuda\" or \"cpu\"), one device such as \"cuda:0\", "
    "or \"any\"; see `gpupool devices`";

bool IsKind(absl::string_view text) { return text == "cpu" || text == "cuda"; }

// A number as it stands in a device's name.
bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= 4 &&
         absl::c_all_of(text, absl::ascii_isdigit) &&
         (text == "0" || text.front() != '0');
}

// What was probably meant; empty when that cannot be told.
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

}  // namespace

absl::Status CheckDevice(absl::string_view field, const std::string& device) {
  if (device.empty() || device == "any" || IsKind(device)) {
    return absl::OkStatus();
  }
  const size_t colon = device.find(':');
  const absl::string_view kind = absl::string_view(device).substr(0, colon);
  if (colon != std::string::npos && IsKind(kind)) {
    const absl::string_view number =
        absl::string_view(device).substr(colon + 1);
    if (IsNumber(number)) return absl::OkStatus();
    if (absl::StrContains(number, ',')) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, " is ", Quoted(device), "; it names one device or a kind; ",
          "for several devices write \"", kind, "\" and their number in ",
          "`devices`"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", Quoted(device), "; the number of a device ",
                     "comes after the colon, as in \"", kind, ":0\"; \"", kind,
                     "\" alone takes any of them"));
  }
  const std::string meant = Meant(device);
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", Quoted(device), "; ",
      meant.empty() ? "" : absl::StrCat("write \"", meant, "\": "), kWhatItIs));
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
