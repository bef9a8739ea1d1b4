"""The status page: what the service does now, one pod's story, one node's, for people with a browser.

    sources        what is read of the running service
    facts          plain values read from it, without HTML
    drawing        the heat map as SVG paths
    rendering      templates to bytes; jinja2 is imported at the first view, in a thread
    live_view      one snapshot for all who look, and what has changed since the one before
    shared_responses  what forks of the process have decided about pods, kept for some seconds and shared
    site           the paths, their pages and the streams
    login_form     a token typed into a form, where the port has a login

Names and texts of pods and nodes come from strangers: the templates escape everything, and the policy lets no script
run but the one file of ours. Nothing here writes, and nothing holds the event loop for more than some milliseconds.
"""
