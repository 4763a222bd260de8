# frozen_string_literal: true

require_relative "seconds"

module Punctual
  # Objects with deadlines: a 4-ary heap that stores each object's place, so a cancelled object is
  # removed at once.
  #
  # A new object stays outside the heap until the earliest deadline is needed: most timeouts are
  # cancelled before that, and an object that is due at once never enters the heap.
  #
  # Objects have `place=` and `order=`, which the schedule sets. Deadlines are in their own arrays,
  # because comparing numbers of one array is faster than calling methods of objects. A place is an
  # index into the heap; or negative, for a new object; or at least {DUE}, for an object that is
  # about to fire.
  #
  # @api private
  class Schedule
    # The first place of objects that are about to fire.
    DUE = 1 << 40

    def initialize
      @times = []
      @objects = []
      @new_times = []
      @new_objects = []
      @due = []
      @next = 0
      @order = 0
      # The earliest deadline that a new object may have. While objects fire, it is after their
      # time.
      @earliest = -Float::INFINITY
    end

    # Adds an object. O(1); it enters the heap later, in O(log n) at worst.
    #
    # @return [Integer] the object's place; when it changes later, the schedule calls `place=`
    # @raise [ArgumentError] if the time is NaN
    # @raise [TypeError] if the time is not a number
    def insert(time, object)
      time = Seconds.parse(time, "the time") unless time.is_a?(Float) && !time.nan?
      time = @earliest if time < @earliest
      object.order = (@order += 1)
      @new_times << time
      object.place = -(@new_objects << object).size
    end

    # Removes the object at a place. O(1) for a new object; in the heap O(1) on average, O(log n) at
    # worst.
    #
    # @return [Boolean] true
    def remove(place)
      if place.negative? then remove_new(-place - 1)
      elsif place >= DUE then @due[place - DUE] = nil
      else
        remove_from_heap(place)
      end
      true
    end

    # O(n) while objects fire, O(1) otherwise.
    def size
      size = @times.size + @new_times.size
      size += @due.count { |entry| entry } unless @due.empty?
      size
    end

    # @return [Float, nil] the earliest deadline
    def first_time
      recall unless @due.empty?
      settle
      @times[0]
    end

    # Removes each due object and yields it, until the block raises. The other due objects stay. An
    # object that the block adds for the past is yielded by the next call.
    def fire(now, &block)
      before = @earliest
      now = bounded(now)
      @earliest = now.next_float
      take_all(now, &block)
    ensure
      @earliest = before
    end

    # Does the same, but also yields objects that the block adds for the past.
    def fire_all(now, &block)
      take_all(bounded(now), &block)
    end

    # @return [Array] all objects, in no particular order
    def objects
      @objects + @new_objects + @due.compact.map(&:last)
    end

    private

    # Objects with infinite deadlines never fire.
    def bounded(now)
      now = Seconds.parse(now, "the time")
      now == Float::INFINITY ? Float::MAX : now
    end

    def take_all(now)
      recall unless @due.empty?
      settle(now)
      while (object = take(now))
        yield object
        settle unless @new_objects.empty?
      end
    ensure
      recall unless @due.empty?
    end

    # Moves new objects into the heap, and objects that are due at `now` into the list of due
    # objects.
    def settle(now = -Float::INFINITY)
      return if @new_objects.empty?

      times = @new_times
      objects = @new_objects
      due = @due
      i = 0
      size = objects.size
      while i < size
        object = objects[i]
        time = times[i]
        if time <= now
          object.place = DUE
          due << [time, object.order, object]
        else
          @times << time
          @objects << object
          sift_up(@times.size - 1, time, object)
        end
        i += 1
      end
      times.clear
      objects.clear
      return if due.size < 2 || now == -Float::INFINITY

      due.sort! # by time, then by order, which is unique
      due.each_with_index { |(_, _, entry), place| entry.place = DUE + place }
    end

    # Removes the first due object and returns it; returns nil if no object is due.
    def take(now)
      due = @due
      entry = nil
      @next += 1 while @next < due.size && !(entry = due[@next])
      time = @times[0]
      if entry && (!time || entry[0] < time || (entry[0] == time && entry[1] < @objects[0].order))
        due[@next] = nil
        if (@next += 1) == due.size
          due.clear
          @next = 0
        end
        return entry[2]
      end
      return unless time && time <= now

      object = @objects[0]
      remove_from_heap(0)
      object
    end

    # Turns objects that were about to fire into new objects.
    def recall
      @due.each do |entry|
        next unless entry

        @new_times << entry[0]
        entry[2].place = -(@new_objects << entry[2]).size
      end
      @due.clear
      @next = 0
    end

    def remove_new(index)
      time = @new_times.pop
      object = @new_objects.pop
      return if index == @new_objects.size

      @new_times[index] = time
      (@new_objects[index] = object).place = -index - 1
    end

    def remove_from_heap(place)
      time = @times.pop
      object = @objects.pop
      return if place == @times.size

      if place.positive? && before?(time, object, (place - 1) >> 2)
        sift_up(place, time, object)
      else
        sift_down(place, time, object)
      end
    end

    # Returns true if an object is due before the object at a place. Objects with equal deadlines
    # are due in the order of insertion.
    def before?(time, object, place)
      other = @times[place]
      time < other || (time == other && object.order < @objects[place].order)
    end

    def sift_up(place, time, object)
      times = @times
      objects = @objects
      while place > 0 # rubocop:disable Style/NumericPredicate -- saves a method call
        parent = (place - 1) >> 2
        above = times[parent]
        break unless time < above || (time == above && object.order < objects[parent].order)

        times[place] = above
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
          next unless child_time < least_time ||
                      (child_time == least_time && objects[child].order < objects[least].order)

          least = child
          least_time = child_time
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
