#include "tools/simulate/block_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/cache_geometry.h"

namespace octavo::simulate {
namespace {

constexpr double kWidth = 960, kHeight = 600;
constexpr double kLeft = 90, kRight = 24;
// Told apart also by those who do not see red and green alike.
constexpr char kFilled[] = "#2c6fbb";
constexpr char kEmpty[] = "#f2a33a";
constexpr char kCached[] = "#bcd3ea";
constexpr char kFree[] = "#f3f4f6";
constexpr char kRunningLine[] = "#2c6fbb";
constexpr char kWaitingLine[] = "#c2410c";

using Value = std::function<double(const Levels&)>;

std::string Escape(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// The step of 1, 2 or 5 times a power of ten that gives at most `most` intervals.
double TickStep(double range, int most) {
  const double least = range / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string TickLabel(double value, double step) {
  if (step >= 1) return WithCommas(std::llround(value));
  const int digits = static_cast<int>(std::ceil(-std::log10(step)));
  return absl::StrFormat("%.*f", digits, value);
}

struct TimeUnit {
  double seconds;
  const char* name;
};

TimeUnit UnitFor(double seconds) {
  if (seconds >= 3 * 3600) return {3600, "hours"};
  if (seconds >= 3 * 60) return {60, "minutes"};
  return {1, "seconds"};
}

// One panel: maps time and value to its rectangle and draws its frame.
class Panel {
 public:
  Panel(double top, double bottom, double seconds, double most)
      : top_(top), bottom_(bottom), seconds_(seconds), most_(most) {}

  double X(double at) const { return kLeft + (kWidth - kLeft - kRight) * at / seconds_; }
  double Y(double value) const {
    return bottom_ - (bottom_ - top_) * std::clamp(value / most_, 0.0, 1.0);
  }

  void DrawAxes(const char* label, std::string* svg) const {
    const double step = TickStep(most_, 5);
    for (double tick = 0; tick <= most_ * (1 + 1e-9); tick += step) {
      absl::StrAppendFormat(svg,
                            "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#9ca3af' "
                            "stroke-opacity='0.5' stroke-width='0.7'/>\n"
                            "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n",
                            kLeft, kWidth - kRight, Y(tick), Y(tick), kLeft - 8, Y(tick) + 4,
                            TickLabel(tick, step));
    }
    absl::StrAppendFormat(svg,
                          "<text transform='translate(20,%.1f) rotate(-90)' "
                          "text-anchor='middle' font-weight='600'>%s</text>\n",
                          (top_ + bottom_) / 2, label);
    absl::StrAppendFormat(svg,
                          "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='none' "
                          "stroke='#4b5563'/>\n",
                          kLeft, top_, kWidth - kLeft - kRight, bottom_ - top_);
  }

  void DrawTimeTicks(bool labels, std::string* svg) const {
    const TimeUnit unit = UnitFor(seconds_);
    const double step = TickStep(seconds_ / unit.seconds, 10);
    for (double tick = 0; tick * unit.seconds <= seconds_ * (1 + 1e-9); tick += step) {
      const double x = X(tick * unit.seconds);
      absl::StrAppendFormat(svg,
                            "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#4b5563'/>\n", x,
                            x, bottom_, bottom_ + 5);
      if (labels) {
        absl::StrAppendFormat(svg, "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n", x,
                              bottom_ + 20, TickLabel(tick, step));
      }
    }
    if (labels) {
      absl::StrAppendFormat(svg,
                            "<text x='%.1f' y='%.1f' text-anchor='middle' "
                            "font-weight='600'>simulated time, %s</text>\n",
                            (kLeft + kWidth - kRight) / 2, bottom_ + 42, unit.name);
    }
  }

 private:
  const double top_;
  const double bottom_;
  const double seconds_;
  const double most_;
};

// Time averages are flat over their window, so lines are steps. Calls `point` for both ends of
// each.
void ForEachCorner(const TimeSeries& levels, const std::vector<Levels>& points, const Value& value,
                   const std::function<void(double, double)>& point) {
  for (size_t i = 0; i < points.size(); ++i) {
    const double begin = static_cast<double>(i) * levels.window_seconds();
    point(begin, value(points[i]));
    point(std::min(begin + levels.window_seconds(), levels.seconds()), value(points[i]));
  }
}

void DrawArea(const Panel& panel, const TimeSeries& levels, const std::vector<Levels>& points,
              const Value& value, const char* colour, std::string* svg) {
  absl::StrAppendFormat(svg, "<path fill='%s' d='M%.2f,%.2f", colour, panel.X(0), panel.Y(0));
  ForEachCorner(levels, points, value, [&](double x, double y) {
    absl::StrAppendFormat(svg, "L%.2f,%.2f", panel.X(x), panel.Y(y));
  });
  absl::StrAppendFormat(svg, "L%.2f,%.2fZ'/>\n", panel.X(levels.seconds()), panel.Y(0));
}

void DrawLine(const Panel& panel, const TimeSeries& levels, const std::vector<Levels>& points,
              Level level, const char* colour, std::string* svg) {
  absl::StrAppendFormat(svg, "<path fill='none' stroke='%s' stroke-width='1.5' d='", colour);
  char command = 'M';
  ForEachCorner(
      levels, points, [level](const Levels& at) { return at[level]; },
      [&](double x, double y) {
        absl::StrAppendFormat(svg, "%c%.2f,%.2f", command, panel.X(x), panel.Y(y));
        command = 'L';
      });
  absl::StrAppend(svg, "'/>\n");
}

struct LegendEntry {
  const char* colour;
  const char* text;
};

void DrawLegend(double y, const std::vector<LegendEntry>& entries, std::string* svg) {
  double x = kLeft;
  for (const LegendEntry& entry : entries) {
    absl::StrAppendFormat(svg,
                          "<rect x='%.1f' y='%.1f' width='14' height='10' fill='%s' "
                          "stroke='#4b5563' stroke-width='0.5'/>\n"
                          "<text x='%.1f' y='%.1f'>%s</text>\n",
                          x, y - 9, entry.colour, x + 20, y, entry.text);
    x += 20 + 7.0 * static_cast<double>(absl::string_view(entry.text).size()) + 24;
  }
}

}  // namespace

std::string PlotBlocks(const TimeSeries& levels, absl::string_view title, int64_t num_blocks,
                       int32_t block_size) {
  const std::vector<Levels> points = levels.Points();
  const double seconds = std::max(levels.seconds(), 1e-9);
  const double blocks = static_cast<double>(std::max<int64_t>(1, num_blocks));
  const auto filled = [block_size](const Levels& at) { return at[kFilledSlots] / block_size; };
  const auto active = [](const Levels& at) { return at[kActiveBlocks]; };
  const auto cached = [](const Levels& at) { return at[kActiveBlocks] + at[kCachedBlocks]; };
  double most_requests = 1;
  for (const Levels& at : points)
    most_requests = std::max({most_requests, at[kRunning], at[kWaiting]});

  std::string svg = absl::StrFormat(
      "<?xml version='1.0' encoding='UTF-8'?>\n"
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' "
      "height='%.0f' font-family='Helvetica, Arial, sans-serif' font-size='12' fill='#111827'>\n"
      "<rect width='100%%' height='100%%' fill='#ffffff'/>\n"
      "<text x='%.1f' y='28' font-size='16' font-weight='600'>%s</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft, Escape(title));

  const Panel pool(76, 356, seconds, blocks);
  DrawLegend(58,
             {{kFilled, "active: slots filled"},
              {kEmpty, "active: slots empty"},
              {kCached, "cached prefixes"},
              {kFree, "free"}},
             &svg);
  absl::StrAppendFormat(&svg, "<rect x='%.1f' y='76' width='%.1f' height='280' fill='%s'/>\n",
                        kLeft, kWidth - kLeft - kRight, kFree);
  DrawArea(pool, levels, points, cached, kCached, &svg);
  DrawArea(pool, levels, points, active, kEmpty, &svg);
  DrawArea(pool, levels, points, filled, kFilled, &svg);
  pool.DrawAxes("KV blocks", &svg);
  pool.DrawTimeTicks(/*labels=*/false, &svg);

  const Panel requests(408, 540, seconds, most_requests * 1.05);
  DrawLegend(392, {{kRunningLine, "running"}, {kWaitingLine, "waiting"}}, &svg);
  requests.DrawAxes("requests", &svg);
  DrawLine(requests, levels, points, kWaiting, kWaitingLine, &svg);
  DrawLine(requests, levels, points, kRunning, kRunningLine, &svg);
  requests.DrawTimeTicks(/*labels=*/true, &svg);
  return svg + "</svg>\n";
}

}  // namespace octavo::simulate
