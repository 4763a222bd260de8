# frozen_string_literal: true

# Lines on logarithmic axes, as SVG.
class Plot
  WIDTH = 1080
  HEIGHT = 600
  LEFT = 70
  RIGHT = 190
  TOP = 40
  BOTTOM = 50
  COLOURS = %w[#d62728 #ff7f0e #9467bd #2ca02c #1f77b4 #000000].freeze

  # @param lines [Hash{String => Array<Array(Numeric, Numeric)>}] points by name
  def initialize(title, lines)
    @title = title
    @lines = lines
    points = lines.values.flatten(1)
    @x = Math.log10(points.map(&:first).min)..Math.log10(points.map(&:first).max)
    @y = Math.log10(points.map(&:last).min).floor..Math.log10(points.map(&:last).max).ceil
  end

  def to_svg
    <<~SVG
      <svg width="#{WIDTH}" height="#{HEIGHT}" viewBox="0 0 #{WIDTH} #{HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="14">
      <rect width="100%" height="100%" fill="#FFFFFF"/>
      <text x="#{WIDTH / 2}" y="24" text-anchor="middle" font-size="16">#{@title}</text>
      #{(horizontal + vertical + @lines.each_with_index.map { |(name, points), i| line(name, points, COLOURS[i]) }).join("\n")}
      </svg>
    SVG
  end

  private

  def place_x(value)
    LEFT + ((Math.log10(value) - @x.begin) / (@x.end - @x.begin) * (WIDTH - LEFT - RIGHT))
  end

  def place_y(value)
    HEIGHT - BOTTOM - ((Math.log10(value) - @y.begin) / (@y.end - @y.begin) * (HEIGHT - TOP - BOTTOM))
  end

  def horizontal
    @y.map do |power|
      y = place_y(10.0**power).round(1)
      %(<line x1="#{LEFT}" y1="#{y}" x2="#{WIDTH - RIGHT}" y2="#{y}" stroke="#DDDDDD"/>) +
        %(<text x="#{LEFT - 8}" y="#{y + 5}" text-anchor="end">#{grouped(10**power)}</text>)
    end
  end

  def vertical
    @lines.values.first.map do |size, _|
      x = place_x(size).round(1)
      %(<text x="#{x}" y="#{HEIGHT - BOTTOM + 22}" text-anchor="middle">#{grouped(size)}</text>)
    end
  end

  def line(name, points, colour)
    path = points.map { |x, y| "#{place_x(x).round(1)},#{place_y(y).round(1)}" }
    last = place_y(points.last[1]).round(1)
    %(<polyline points="#{path.join(" ")}" fill="none" stroke="#{colour}" stroke-width="2"/>) +
      %(<text x="#{WIDTH - RIGHT + 8}" y="#{last + 5}" fill="#{colour}">#{name}</text>)
  end

  def grouped(number)
    number.to_s.gsub(/(?<=\d)(?=(\d{3})+$)/, ",")
  end
end
