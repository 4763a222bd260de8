# frozen_string_literal: true

require_relative "seconds"

module Punctual
  # Objects with deadlines: a 4-heap that knows each object's place, so a cancelled one leaves at once.
  #
  # Objects have `place=` and `order=`; the schedule calls them. Deadlines lie in an array of their own: comparing numbers of
  # one array is quicker than asking objects.
  #
  # @api private
  class Schedule
    def initialize
      @times = []
      @objects = []
      @order = 0
      # The earliest deadline of a new object. While objects fire, it lies after their time.
      @earliest = -Float::INFINITY
    end

    # Adds an object in O(1) if it is due later than most, in O(log n) otherwise.
    #
    # @return [Integer] the object's place, which changes; the object is told
    # @raise [ArgumentError] if the time is NaN
    def insert(time, object)
      time = Seconds.parse(time, "the time") unless time.is_a?(Float) && !time.nan?

      time = @earliest if time < @earliest
      place = @times.size
      object.order = (@order += 1)
      @times << time
      @objects << object
      return sift_up(place, time, object) if place.positive? && time < @times[(place - 1) >> 2]

      object.place = place
    end

    # Removes the object at a place: O(1) on average, O(log n) at worst.
    #
    # @return [Boolean] true
    def remove(place)
      time = @times.pop
      object = @objects.pop
      return true if place == @times.size

      if place.positive? && before?(time, object, (place - 1) >> 2)
        sift_up(place, time, object)
      else
        sift_down(place, time, object)
      end
      true
    end

    def size
      @times.size
    end

    # @return [Float, nil] the earliest deadline
    def first_time
      @times[0]
    end

    # Takes out each object that is due and yields it, until a call fails. The other objects stay.
    def fire(now)
      now = Seconds.parse(now, "the time")
      # Infinite deadlines never come.
      now = Float::MAX if now == Float::INFINITY
      before = @earliest
      @earliest = now.next_float
      begin
        while (time = @times[0]) && time <= now
          object = @objects[0]
          remove(0)
          yield object
        end
      ensure
        @earliest = before
      end
    end

    # @return [Array] all objects, in no order
    def objects
      @objects.dup
    end

    private

    # Whether an object is due before the one at a place. Equal deadlines are due in the order of insertion.
    def before?(time, object, place)
      other = @times[place]
      time < other || (time == other && object.order < @objects[place].order)
    end

    def sift_up(place, time, object)
      times = @times
      objects = @objects
      while place.positive?
        parent = (place - 1) >> 2
        break unless before?(time, object, parent)

        times[place] = times[parent]
        (objects[place] = objects[parent]).place = place
        place = parent
      end
      times[place] = time
      objects[place] = object
      object.place = place
    end

    def sift_down(place, time, object)
      times = @times
      objects = @objects
      size = times.size
      while (child = (place << 2) + 1) < size
        least = child
        least_time = times[child]
        last = child + 4
        last = size if last > size
        while (child += 1) < last
          child_time = times[child]
          if child_time < least_time ||
             (child_time == least_time && objects[child].order < objects[least].order)
            least = child
            least_time = child_time
          end
        end
        break if time < least_time || (time == least_time && object.order < objects[least].order)

        times[place] = least_time
        (objects[place] = objects[least]).place = place
        place = least
      end
      times[place] = time
      objects[place] = object
      object.place = place
    end
  end
end
